"""Proxies that are silent for long are forgotten."""

from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.repositories.routes import report_of
from sokovan.testing.stored_cluster import StoredCluster


async def test_a_proxy_that_is_silent_is_forgotten() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.store.run(lambda unit: unit.proxies.report(report_of(cluster)))
        await clock.advance(60)
        forgotten = await cluster.store.run(lambda unit: unit.proxies.expire(before_ms=unit.now_ms - 1000))
        assert forgotten == 1
        assert await cluster.store.read(lambda unit: unit.proxies.live(since_ms=0)) == []
