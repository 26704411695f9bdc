"""Agents come back to what they were."""

import pytest

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.orchestrator.agent_recovery import is_left_behind, rejoin
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER

A1 = AgentId("a1")


async def after(cluster: OrchestratedCluster, *triggers: AgentTrigger) -> tuple[bool, AgentStatus]:
    """Whether an agent with these triggers rejoined, and its status."""
    await cluster.agent("a1")
    for trigger in triggers:
        record = await cluster.store.read(lambda unit: unit.fleet.get(A1))
        change = BY_USER if trigger is AgentTrigger.DRAIN_REQUESTED else BY_COORDINATOR
        await cluster.store.run(lambda unit, r=record, t=trigger, c=change: unit.fleet.move(r, t, c))  # type: ignore[misc]  # defaults bind the loop's names
    back = await cluster.store.run(lambda unit: rejoin(unit, A1))
    return back, (await cluster.store.read(lambda unit: unit.fleet.get(A1))).info.status


@pytest.mark.slow
async def test_a_suspect_is_alive_again(cluster: OrchestratedCluster) -> None:
    assert await after(cluster, AgentTrigger.HEARTBEAT_MISSED) == (True, AgentStatus.ALIVE)


@pytest.mark.slow
async def test_a_lost_one_is_alive_again(cluster: OrchestratedCluster) -> None:
    triggers = (AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST)
    assert await after(cluster, *triggers) == (True, AgentStatus.ALIVE)


@pytest.mark.slow
async def test_what_an_operator_asked_for_is_not_forgotten(cluster: OrchestratedCluster) -> None:
    triggers = (AgentTrigger.DRAIN_REQUESTED, AgentTrigger.DECLARED_LOST)
    assert await after(cluster, *triggers) == (True, AgentStatus.DRAINING)


async def test_an_agent_that_was_not_away_does_not_rejoin(cluster: OrchestratedCluster) -> None:
    assert await after(cluster) == (False, AgentStatus.ALIVE)


@pytest.mark.slow
async def test_what_a_new_incarnation_did_not_find_is_left_behind(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()

    async def left_behind() -> bool:
        info = (await cluster.store.read(lambda unit: unit.fleet.get(A1))).info
        [kernel] = await cluster.store.read(lambda unit: unit.ledger.kernels_on(A1))
        return is_left_behind(kernel, info)

    assert not await left_behind()
    await agent.restart()
    assert not await left_behind()
    agent.loses_its_machine()
    known = await cluster.store.read(lambda unit: unit.fleet.get(A1))
    await cluster.store.run(lambda unit: unit.fleet.enrol(known.info, BY_AGENT))
    assert await left_behind()
