"""Held slots over time on SQL; the contract of the ledger has the rest."""

from __future__ import annotations

from sokovan.adapters.sql.repositories.usage_history import read_series
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.owners.usage_history import UsageBy, UsageSeries, UsageWindow
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster


async def test_what_was_held_before_the_window_is_its_first_level() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.agent("a1")
        await cluster.submit("s1", slots={"mem": 8 << 30})
        await cluster.place("s1", "a1")
        await cluster.start("s1")
        await clock.advance(100)
        begin_ms = clock.now_ms()
        await clock.advance(15)
        await cluster.stop("s1")
        await cluster.free("s1", FreeProof.AGENT_TOMBSTONE)
        window = UsageWindow(begin_ms, begin_ms + 30_000, 10_000)
        found = await cluster.store.read(
            lambda unit: read_series(unit.transaction, SessionFilter(), window, UsageBy.ALL)
        )
        assert found == [UsageSeries("", "mem", (8 << 30, 4 << 30, 0))]
        assert (
            await cluster.store.read(
                lambda unit: read_series(unit.transaction, SessionFilter(user="a b"), window, UsageBy.ALL)
            )
            == []
        )
