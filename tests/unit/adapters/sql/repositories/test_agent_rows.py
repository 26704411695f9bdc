"""Agents for the scheduler, with the ports that are taken, and their health."""

from __future__ import annotations

from sokovan.adapters.sql.repositories.agent_rows import (
    health_of,
    health_text,
    read_infos,
    releasing_kernels,
)
from sokovan.adapters.sql.repositories.sessions.session_rows import ON_AGENT
from sokovan.adapters.sql.schema.tables import KERNELS
from sokovan.domain.cluster.agent import FOREVER_MS
from sokovan.domain.cluster.agent_health import HEALTHY, AgentFailure, AgentHealth
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.session import ServicePort
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.statements import recorded_statements


async def taken(cluster: StoredCluster) -> list[tuple[tuple[int, int], ...]]:
    infos = await cluster.store.run_sql(lambda unit: read_infos(unit.transaction))
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


def test_a_healthy_agent_is_stored_as_nothing() -> None:
    assert health_text(HEALTHY) == "{}"
    assert health_of("{}") is HEALTHY


def test_failures_are_read_as_they_were_written() -> None:
    failure = AgentFailure(SessionId("s1"), "eve", "creation-refused", "no space", 5)
    health = AgentHealth((failure,), failing_ms=6, clean_ms=4, rounds=2, probed_ms=7)
    assert health_of(health_text(health)) == health


def test_fields_that_a_later_release_adds_are_ignored() -> None:
    assert health_of('{"rounds": 1, "mood": "bad"}') == AgentHealth(rounds=1)


async def test_kernels_of_agents_are_found_by_the_index_of_those_that_are_there() -> None:
    [index] = [one for one in KERNELS.indexes if one.name == "ix_kernels_agent_live"]
    # SQLite uses it only for a query with the same words.
    assert str(ON_AGENT) == f"kernels.{index.dialect_options['sqlite']['where']}"
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        with recorded_statements(cluster) as statements:
            await cluster.store.read(lambda unit: unit.ledger.kernels_on(AgentId("a1")))
            await cluster.store.run_sql(lambda unit: releasing_kernels(unit.transaction, ["a1"]))
        asked = [one for one in statements if "FROM kernels" in one]
        assert len(asked) == 2
        assert all(str(ON_AGENT) in one for one in asked), asked
