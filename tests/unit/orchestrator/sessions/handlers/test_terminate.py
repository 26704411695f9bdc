"""Kernels are stopped, and freed with a proof."""

import pytest

from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.orchestrator.agent_requests import AgentRequestKey
from sokovan.orchestrator.sessions.handlers.terminate import STOP
from sokovan.ports.agent_gateway import GoneProof
from sokovan.testing.acting_agents import Fault
from sokovan.testing.ledger_rows import ledger_rows
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow


async def proofs(cluster: OrchestratedCluster, kernel_id: str) -> set[FreeProof | None]:
    lines = await ledger_rows(cluster.store, kernel_id)
    return {line.proof for line in lines}


async def test_what_was_never_sent_is_freed_without_asking_anybody(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.faults["prepare"] = Fault.REQUEST_LOST
    await cluster.submit("s")
    await cluster.settle()
    agent.goes_silent()
    await cluster.stop("s")
    await cluster.settle()
    assert await cluster.status("s") == "terminated"
    assert agent.requests["stop"] == 0
    assert await proofs(cluster, "s.0") == {FreeProof.NEVER_SENT}


async def test_the_reply_of_the_agent_is_the_usual_proof(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    await cluster.stop("s")
    await cluster.settle()
    assert await proofs(cluster, "s.0") == {FreeProof.AGENT_TOMBSTONE}


async def test_a_new_incarnation_that_does_not_know_it_is_a_proof(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.loses_its_machine()
    await cluster.stop("s")
    await cluster.settle()
    assert await cluster.status("s") == "terminating"
    await agent.connect()
    await cluster.settle()
    assert await cluster.status("s") == "terminated"
    assert await proofs(cluster, "s.0") == {FreeProof.INCARNATION_FENCED}


async def test_a_missing_heartbeat_proves_nothing(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.goes_silent()
    await cluster.stop("s")
    await cluster.pass_time(300, step_s=5)
    assert await cluster.status("s") == "terminating"
    assert await proofs(cluster, "s.0") == {None}


async def test_a_slow_termination_is_noticed_when_it_ends(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.stubborn = True
    await cluster.submit("s")
    await cluster.settle()
    await cluster.stop("s")
    await cluster.settle()
    assert agent.requests["stop"] == 1
    await agent.ends("s.0", 0)
    await cluster.settle()
    assert agent.requests["stop"] == 2
    assert await cluster.status("s") == "terminated"


async def test_the_late_reply_about_an_earlier_attempt_frees_nothing(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.stubborn = True
    await cluster.submit("s")
    await cluster.settle()
    await cluster.stop("s")
    await cluster.settle()

    async def gone() -> tuple[int, GoneProof]:
        return 1, GoneProof(gone=True)

    assert cluster.coordinator._context.requests.begin(AgentRequestKey(STOP, AgentId("a1"), "s.0", 0), gone)
    await cluster.settle()
    assert await cluster.status("s") == "terminating"
    assert await proofs(cluster, "s.0") == {None}


async def test_a_stubborn_kernel_is_not_asked_more_often_than_every_few_seconds(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.stubborn = True
    await cluster.submit("s")
    await cluster.settle()
    await cluster.stop("s")
    await cluster.pass_time(30)
    assert 4 <= agent.requests["stop"] <= 8


async def test_the_grace_is_the_sessions_and_none_by_force(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    graces: list[float] = []
    stop = cluster.agents.stop_kernel

    async def seen(
        agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int, *, grace_s: float, notice: str
    ) -> object:
        graces.append(grace_s)
        assert notice == ""  # nobody evicts it
        return await stop(agent_id, incarnation, kernel_id, attempt, grace_s=grace_s)

    cluster.agents.stop_kernel = seen  # type: ignore[assignment, method-assign]  # a spy in front of it
    for name in ("soft", "hard"):
        await cluster.submit(name, stop_grace_s=42)
    await cluster.settle()
    await cluster.stop("soft")
    await cluster.stop("hard", forced=True)
    await cluster.settle()
    assert set(graces) == {0.0, 42.0}
