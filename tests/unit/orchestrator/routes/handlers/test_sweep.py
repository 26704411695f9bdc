"""Proxies that no longer exist are forgotten after a month."""

from __future__ import annotations

import pytest

from sokovan.testing.served_cluster import ScriptedProxy, ServedCluster


@pytest.mark.slow
async def test_a_proxy_is_forgotten_after_a_month() -> None:
    async with ServedCluster.serve() as cluster:
        await ScriptedProxy(cluster.store, "gone").report()
        await cluster.deploy(replicas=0)
        await cluster.converge()
        for days in (29, 2):
            await cluster.clock.advance(days * 24 * 3600)
            await cluster.agents.beat()
            await cluster.turn(cluster.routes)
            known = await cluster.store.read(lambda unit: unit.proxies.live(since_ms=0))
            assert ("gone" in [one.proxy_id for one in known]) == (days == 29)
