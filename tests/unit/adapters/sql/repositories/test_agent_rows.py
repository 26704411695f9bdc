"""Agents for the scheduler, with the ports that are taken."""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.agent_rows import read_infos
from sokovan.domain.cluster.agent import FOREVER_MS
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.session import ServicePort
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster


async def taken(cluster: StoredCluster) -> list[tuple[tuple[int, int], ...]]:
    infos = await cluster.store.run_sql(lambda unit: read_infos(unit.transaction, sa.true()))
    return [info.leased_ports for info in infos]


async def test_a_port_is_taken_while_it_is_leased_and_for_a_minute_after() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.agent("a1")
        await cluster.submit("s", ports=(ServicePort("web", 8080),))
        await cluster.place("s", "a1")
        assert await taken(cluster) == [((8080, FOREVER_MS),)]
        await cluster.stop("s")
        await cluster.free("s", FreeProof.NEVER_SENT)
        [((port, until_ms),)] = await taken(cluster)
        assert (port, 0 < until_ms < FOREVER_MS) == (8080, True)
        await clock.advance(61)
        assert await taken(cluster) == [()]
