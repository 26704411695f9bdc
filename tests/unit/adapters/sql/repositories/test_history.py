"""Lines of histories, written and counted."""

import pytest
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.schema.tables import AGENTS
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AGENT, AgentTrigger
from sokovan.domain.lifecycle.eviction import ROOM_FREED
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.repositories.agents import walked
from sokovan.testing.stored_cluster import StoredCluster

SLOW = Change("watchdog", Cause.COORDINATOR, code="slow", detail="late by 3 s")


async def noted(cluster: StoredCluster, *names: str, change: Change = SLOW) -> None:
    async def work(unit: SqlUnitOfWork) -> None:
        await history.note(unit.transaction, AGENT, AGENTS, ids=names, change=change)

    await cluster.store.run_sql(work)


async def test_any_kind_of_object_can_be_noted() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.agent("a1")
        await noted(cluster, "a1")
        await clock.advance(5)
        await noted(cluster, "a1")
        [_, entry] = await cluster.store.read(lambda unit: unit.fleet.history(AgentId("a1")))
        assert (entry.times, entry.trigger, entry.before, entry.after) == (2, history.NOTED, "alive", "alive")
        assert entry.last_ms == entry.at_ms + 5_000


async def test_what_has_ended_is_passed_over() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("a1", "a2"):
            await cluster.agent(name)
        await walked(cluster, "a1", AgentTrigger.LEFT)
        await noted(cluster, "a1", "a2", "nobody")
        triggers = [
            [entry.trigger for entry in await cluster.store.read(lambda unit: unit.fleet.history(AgentId("a1")))],
            [entry.trigger for entry in await cluster.store.read(lambda unit: unit.fleet.history(AgentId("a2")))],
        ]
        assert triggers == [["enrolled", "left"], ["enrolled", "noted"]]


async def test_no_lines_are_no_statement() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.store.run_sql(lambda unit: history.append(unit.transaction, "agent", [], SLOW))
        await noted(cluster)


async def test_a_line_that_the_table_does_not_have_is_refused_by_the_database() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        line = history.HistoryRow("a1", 2, "alive", "lost", "wished")
        with pytest.raises(IntegrityError):
            await cluster.store.run_sql(lambda unit: history.append(unit.transaction, "agent", [line], SLOW))


async def test_each_receipt_for_a_taker_is_kept() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        for victim in ("low", "mid"):
            await noted(cluster, "a1", change=Change("x", Cause.COORDINATOR, code=ROOM_FREED, detail=victim))
        [_, *entries] = await cluster.store.read(lambda unit: unit.fleet.history(AgentId("a1")))
        assert [(one.change.detail, one.times) for one in entries] == [("low", 1), ("mid", 1)]
