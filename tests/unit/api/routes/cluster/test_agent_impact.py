"""The impact of an action on an agent."""

from __future__ import annotations

import pytest

from sokovan.api.routes.cluster.agent_impact import agent_impact
from sokovan.cli.commands.agents import impact_lines
from sokovan.domain.errors import IllegalTransition, ObjectNotFound
from sokovan.domain.ids import AgentId, DeploymentId
from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.session import SessionType
from sokovan.testing.stored_cluster import StoredCluster


async def test_a_drain_leaves_the_sessions_and_takes_the_free_room() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("a1", "a2"):
            await cluster.agent(name)
        await cluster.submit("wide", kernels=3)
        await cluster.place("wide", "a1", "a1", "a2")
        found = await cluster.store.read(lambda unit: agent_impact(unit, "a1", "drain"))
        record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId(found.agent)))
        assert [(one.name, one.kernels, one.size) for one in found.sessions] == [("wide", 2, 3)]
        assert (found.kernels, found.left_out, found.group_agents, found.group_agents_after) == (2, 0, 2, 1)
        taken = {slot: found.group_free[slot] - found.group_free_after[slot] for slot in found.group_free}
        assert taken == dict(record.info.free_slots)
        assert record.info.schedulable


@pytest.mark.parametrize(("action", "moves"), [("drain", True), ("undrain", False)])
async def test_a_replica_moves_when_its_agent_drains(action: str, moves: bool) -> None:  # a case
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        place = ReplicaPlace(DeploymentId("d"), 1, 0, 1)
        await cluster.submit("replica", session_type=SessionType.INFERENCE, replica=place)
        await cluster.submit("job")
        for name in ("replica", "job"):
            await cluster.place(name, "a1")
        found = await cluster.store.read(lambda unit: agent_impact(unit, "a1", action))
        assert {one.name: one.moves for one in found.sessions} == {"replica": moves, "job": False}
        said = [line for line in impact_lines(found) if "serves elsewhere" in line]
        assert [line.split()[0] for line in said] == ["replica"] * moves


async def test_an_action_that_is_not_possible_is_refused() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        with pytest.raises(IllegalTransition):
            await cluster.store.read(lambda unit: agent_impact(unit, "a1", "declare-gone"))
        with pytest.raises(ObjectNotFound):
            await cluster.store.read(lambda unit: agent_impact(unit, "a9", "drain"))
