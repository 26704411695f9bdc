"""Reads of the fleet: of agents and their devices only what has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.sql.repositories.agents import SqlAgents
from sokovan.adapters.sql.repositories.ledger import SqlLedger
from sokovan.api.fleet.columns import FleetReading, fleet_of, fleet_view, seen_by
from sokovan.api.fleet.reader import KEPT_MS, FleetReader, FleetState
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.owners.access import UNOWNED
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import BY_AGENT, StoredCluster
from tests.unit.api.fake_agents import FakeAgents

SLOTS = {"cpu": 1000, "mem": 1 << 30, "cuda.device": 1}


async def seen(reader: FleetReader, clock: VirtualClock) -> FleetState:
    await clock.advance(KEPT_MS / 1000)
    return await reader.current()


async def test_devices_are_read_again_of_those_agents_only_that_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = VirtualClock(), []
    read = SqlLedger.held_devices

    async def asking(ledger: SqlLedger, agents: Sequence[AgentId] | None = None) -> Any:
        asked.append(agents)
        return await read(ledger, agents)

    monkeypatch.setattr(SqlLedger, "held_devices", asking)
    async with StoredCluster.open(clock=clock) as cluster:
        reader = FleetReader(cluster.store, InProcessAgentStates(clock), FakeAgents(), clock)
        for name in ("a1", "a2", "a3"):
            await cluster.agent(name)
        for name, agent_id in (("s1", "a1"), ("s2", "a2")):
            await cluster.submit(name, slots=SLOTS)
            await cluster.place(name, agent_id)
        first = await reader.current()
        assert await reader.current() is first, "readers of a moment share it"
        assert (await seen(reader, clock)).fleet.agents == first.fleet.agents
        await cluster.start("s1")
        await cluster.stop("s1")
        await cluster.free("s1", FreeProof.AGENT_TOMBSTONE)
        last = (await seen(reader, clock)).fleet
        assert asked == [None, [], ["a1"]]
        found = fleet_view(last, seen_by(UNOWNED))
        assert [one.id for one in found.holders] == ["s2"]
        anew = FleetReader(cluster.store, InProcessAgentStates(clock), FakeAgents(), clock)
        assert fleet_view((await anew.current()).fleet, seen_by(UNOWNED)) == found


async def test_agents_that_have_left_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, rows = VirtualClock(), []
    read = SqlAgents._records

    async def reading(agents: SqlAgents, *statement: Any) -> Any:
        found = await read(agents, *statement)
        rows.append([str(one.info.agent_id) for one in found])
        return found

    async with StoredCluster.open(clock=clock) as cluster:
        reader = FleetReader(cluster.store, InProcessAgentStates(clock), FakeAgents(), clock)
        for name in ("a1", "a2"):
            await cluster.agent(name)
        record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a2")))
        await cluster.store.run(lambda unit: unit.fleet.move(record, AgentTrigger.LEFT, BY_AGENT))
        assert list((await reader.current()).fleet.agents) == ["a1"]
        monkeypatch.setattr(SqlAgents, "_records", reading)
        assert list((await seen(reader, clock)).fleet.agents) == ["a1"]
        assert rows == []


async def test_the_columns_are_encoded_once_for_readers_who_see_the_same() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        reader = FleetReader(cluster.store, InProcessAgentStates(clock), FakeAgents(), clock)
        state = FleetState(0, fleet_of(FleetReading(0, [])))
        body = await reader.body(state, UNOWNED)
        assert body.startswith(b'{"as_of":"1970-01-01T00:00:00')
        assert await reader.body(state, UNOWNED) is body
