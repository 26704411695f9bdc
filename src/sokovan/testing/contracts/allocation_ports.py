"""Contract of `ports.allocation` for the ports of agents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import HELD_PORTS, PORT_REST_MS
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.agent import PORTS_LABEL
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.session import ServicePort
from sokovan.ports.allocation import PortsTaken
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.allocation import ONE_CPU, agents, sessions
from sokovan.testing.stored_cluster import DEFAULT_GROUP, StoredCluster, assignment

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
WEB = (ServicePort("web", 8080),)
ANY = (ServicePort("web"),)


async def a_conflict_of_ports_drops_only_the_later_session(cluster: StoredCluster) -> None:
    """The others of the same batch are allocated."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    first, second = await sessions(cluster, 2, ONE_CPU, ports=WEB)
    [other] = await sessions(cluster, 1, ONE_CPU, ports=(ServicePort("web", 8081),))
    batch = await cluster.place_all([assignment(name, agent) for name in (first, second, other)])
    refused = {str(name): type(error) for name, error in batch.refused.items()}
    expect(refused == {second: PortsTaken}, f"refused were {batch.refused}")
    expect([await _ports(cluster, name) for name in (first, other)] == [{"web": 8080}, {"web": 8081}], "other ports")


async def concurrent_callers_get_different_ports(cluster: StoredCluster) -> None:
    """Also if each of them allocates a gang, which leases one port to meet at."""
    [agent] = await agents(cluster, 1, {"cpu": 9000}, labels={PORTS_LABEL: "31000-31005"})
    names = [*await sessions(cluster, 2, ONE_CPU, kernels=2), *await sessions(cluster, 4, ONE_CPU, ports=ANY)]
    width = [2, 2, 1, 1, 1, 1]
    await asyncio.gather(*(cluster.place(name, *[agent] * n) for name, n in zip(names, width, strict=True)))
    leased = [port for name in names for port in (await _ports(cluster, name)).values()]
    expect(sorted(leased) == list(range(31000, 31006)), f"leased were {leased}")


async def a_port_is_leased_again_after_a_proof_and_a_rest(cluster: StoredCluster) -> None:
    """Not when its session was stopped, and not at once when its kernel is gone."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    first, second = await sessions(cluster, 2, ONE_CPU, ports=WEB)
    await cluster.place(first, agent)
    await cluster.stop(first)
    expect(bool((await cluster.place(second, agent)).refused), "a port was leased twice")
    await cluster.free(first, FreeProof.NEVER_SENT)
    expect(bool((await cluster.place(second, agent)).refused), "a port did not rest")
    await _age(cluster, agent, PORT_REST_MS)
    expect(not (await cluster.place(second, agent)).refused, "a port that has rested was not leased")
    expect(await _ports(cluster, first) == {"web": 8080}, "the record of an ended kernel lost its port")


async def held_ports_are_listed_with_their_session_or_the_end_of_their_rest(cluster: StoredCluster) -> None:
    """Of the wanted ports, on agents of one scaling group."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    [name] = await sessions(cluster, 1, ONE_CPU, ports=(ServicePort("web", 8088), ServicePort("api", 8089)))
    await cluster.place(name, agent)

    async def held(*ports: int, group: ScalingGroupName = DEFAULT_GROUP) -> list[tuple[str, int, str, bool]]:
        found = await cluster.store.read(lambda unit: unit.ledger.held_ports(group, ports))
        return [
            (one.agent_id, one.port, one.session_id, one.until_ms is not None) for one in found if one.agent_id == agent
        ]

    expect(await held(8089, 8090) == [(agent, 8089, name, False)], "a leased port was not found with its session")
    expect(await held() == await held(8089, group=ScalingGroupName("none")) == [], "other ports were found")
    await cluster.stop(name)
    await cluster.free(name, FreeProof.NEVER_SENT)
    expect(await held(8089) == [(agent, 8089, name, True)], "a port that rests was not found")
    await _age(cluster, agent, PORT_REST_MS)
    expect(await held(8089) == [], "a port that has rested was found")


async def leases_that_have_rested_are_deleted(cluster: StoredCluster) -> None:
    """So that the table does not grow with each session."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    for name in await sessions(cluster, 3, ONE_CPU, ports=ANY):
        await cluster.place(name, agent)
        await cluster.stop(name)
        await cluster.free(name, FreeProof.NEVER_SENT)
        await _age(cluster, agent, PORT_REST_MS)
    count = sa.select(sa.func.count()).where(HELD_PORTS.c.agent_id == agent)

    async def work(unit: SqlUnitOfWork) -> Any:
        return (await unit.transaction.fetch(count))[0][0]

    expect(await cluster.store.run_sql(work) == 1, "leases that have rested were kept")


async def _ports(cluster: StoredCluster, name: str) -> Mapping[str, int]:
    return (await cluster.session(name)).kernels[0].host_ports


async def _age(cluster: StoredCluster, agent: str, by_ms: int) -> None:
    """Let freed leases be older; the clock of some databases cannot be advanced."""
    freed = (HELD_PORTS.c.agent_id == agent, HELD_PORTS.c.freed_ms.is_not(None))
    older = {"freed_ms": HELD_PORTS.c.freed_ms - by_ms, "held_ms": HELD_PORTS.c.held_ms - by_ms}
    update = sa.update(HELD_PORTS).where(*freed).values(older)

    async def work(unit: SqlUnitOfWork) -> None:
        await unit.transaction.execute(update)

    await cluster.store.run_sql(work)


CHECKS: tuple[Check, ...] = (
    a_conflict_of_ports_drops_only_the_later_session,
    concurrent_callers_get_different_ports,
    a_port_is_leased_again_after_a_proof_and_a_rest,
    held_ports_are_listed_with_their_session_or_the_end_of_their_rest,
    leases_that_have_rested_are_deleted,
)
