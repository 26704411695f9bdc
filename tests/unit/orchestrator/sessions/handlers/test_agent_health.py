"""Probes of agents under faults; tests/scenario/test_failing_agents.py has the rules."""

import pytest

from sokovan.domain.cluster.agent_health import AgentFailure, AgentHealth
from sokovan.domain.ids import AgentId, SessionId
from sokovan.testing.acting_agents import ActingAgent, Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow

FAILURE = AgentFailure(SessionId("s"), "eve", "creation-refused", "no space", 1)
FAILING = AgentHealth((FAILURE,), failing_ms=1, rounds=1)


async def failing_agent(cluster: OrchestratedCluster, **faults: Fault) -> ActingAgent:
    """An agent that fails, by the store, and whose probes run until they are ended."""
    agent = await cluster.agent("a1")
    agent.faults.update(faults)
    record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))
    await cluster.store.run(lambda unit: unit.fleet.set_health(record, FAILING))
    await cluster.settle()
    return agent


async def health(cluster: OrchestratedCluster) -> AgentHealth:
    return (await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))).info.health


async def test_a_probe_that_ends_with_zero_returns_the_agent(cluster: OrchestratedCluster) -> None:
    agent = await failing_agent(cluster)
    await cluster.pass_time(1)
    assert len(agent.running()) == 1
    await cluster.pass_time(15)  # long cycles do not take it for an orphan
    assert cluster.telemetry.counted("orphans_total") == 0
    await agent.ends(agent.running()[0])
    await cluster.pass_time(2)
    assert not (await health(cluster)).is_failing
    assert agent.machine == {}


async def test_a_probe_that_ends_with_another_code_has_failed(cluster: OrchestratedCluster) -> None:
    agent = await failing_agent(cluster)
    await cluster.pass_time(1)
    await agent.ends(agent.running()[0], 127)
    await cluster.pass_time(2)
    assert ((await health(cluster)).is_failing, (await health(cluster)).rounds) == (True, 2)


async def test_a_probe_that_hangs_has_failed_and_is_stopped(cluster: OrchestratedCluster) -> None:
    agent = await failing_agent(cluster)
    await cluster.pass_time(45)
    assert (await health(cluster)).rounds == 2
    assert (agent.running(), cluster.telemetry.counted("orphans_total")) == ([], 1)


async def test_an_agent_that_does_not_answer_is_asked_again_without_counting(cluster: OrchestratedCluster) -> None:
    agent = await failing_agent(cluster, create=Fault.REQUEST_LOST)
    await cluster.pass_time(25)
    assert (await health(cluster)).rounds == 1
    assert 1 < agent.requests["create"] <= 3
    agent.faults.clear()
    agent.script.exits = lambda _launch: 0
    await cluster.pass_time(12)
    assert not (await health(cluster)).is_failing


async def test_the_next_leader_probes_again(cluster: OrchestratedCluster) -> None:
    agent = await failing_agent(cluster)
    await cluster.pass_time(1)
    agent.script.exits = lambda _launch: 0
    await cluster.fail_over()
    await cluster.agents.beat()
    await cluster.pass_time(12)
    assert not (await health(cluster)).is_failing
    assert agent.running() == []


async def test_a_healthy_agent_is_neither_written_nor_probed(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.settle()
    before = (await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))).version
    agent.script.exits = lambda _launch: 0
    await cluster.submit("s")
    await cluster.pass_time(5)
    after = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))
    assert (after.info.health, after.version, agent.requests["create"]) == (AgentHealth(), before, 1)
