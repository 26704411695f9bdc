"""State and tools shared by handlers."""

import pytest

from sokovan.domain.ids import AgentId, SessionId
from sokovan.orchestrator.agent_requests import AgentReply, AgentRequestKey
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.ports.agent_gateway import AgentUnreachable
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

KEY = AgentRequestKey("stop", AgentId("a1"), "s.0", 1)


def context_of(cluster: OrchestratedCluster) -> HandlerContext:
    return cluster.coordinator._context


def test_a_cycle_starts_without_changes() -> None:
    cycle = CycleInput()
    assert (cycle.long, cycle.diff.kernels, dict(cycle.agents)) == (False, [], {})


async def test_an_unreachable_agent_is_noted_once_per_session(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    context = context_of(cluster)
    reply = AgentReply(KEY, error=AgentUnreachable(agent_id="a1", problem="no link"))
    for _ in range(6):
        context.requests.backoff.failed(KEY)
        await context.request_failed("terminate", reply, SessionId("s"))
    assert await cluster.codes("s") == ["agent-unreachable"]
    assert cluster.telemetry.counted("requests_failed_total", kind="stop") == 6
    assert context.quarantine.take() == []


async def test_an_unexpected_error_quarantines_the_session(cluster: OrchestratedCluster) -> None:
    context = context_of(cluster)
    await context.request_failed("terminate", AgentReply(KEY, error=TypeError("oops")), SessionId("s"))
    await context.request_failed("terminate", AgentReply(KEY, value="fine"), SessionId("s"))
    assert [one.detail for one in context.quarantine.take()] == ["TypeError: oops"]


@pytest.mark.slow
async def test_clear_cancels_requests_and_forgets_everything(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.faults["create"] = Fault.HANGS
    await cluster.submit("s")
    await cluster.tick()
    context = context_of(cluster)
    assert context.requests.under_way == 1
    await context.clear()
    assert (context.requests.under_way, context.batches.fence, context.sessions.count(Need.CONFIRMATION)) == (
        0,
        None,
        0,
    )
