"""Kernels are moved along what was seen of them, and by nothing else."""

import pytest

from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.session import EndPolicy
from sokovan.ports.agent_states import AgentState, KernelReport
from sokovan.ports.runtime import OUT_OF_MEMORY
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow


async def test_a_kernel_that_is_starting_has_not_begun(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.slow = True
    await cluster.submit("s")
    await cluster.pass_time(12)
    assert await cluster.status("s") == "creating"


async def test_a_gang_runs_when_all_of_it_has_begun(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.slow = True
    await cluster.submit("s", kernels=2)
    await cluster.settle()
    await agent.begin("s.0")
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.status.value, [one.status.value for one in session.kernels]) == (
        "creating", ["running", "creating"],
    )  # fmt: skip
    await agent.begin("s.1")
    await cluster.settle()
    assert await cluster.status("s") == "running"


async def test_an_unobserved_exit_counts_as_a_failure(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.faults["stop"] = Fault.REQUEST_LOST
    await agent.ends("s.0", 255)
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.status.value, session.cause, session.kernels[0].exit_code) == ("terminating", "kernel-failed", 255)
    agent.faults.clear()
    await cluster.pass_time(3)


async def test_a_kernel_that_ran_out_of_memory_says_so_in_its_story_and_its_session_s(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    await agent.ends("s.0", 137, OUT_OF_MEMORY)
    await cluster.pass_time(2)
    session = await cluster.session("s")
    assert (session.status.value, session.cause, session.kernels[0].exit_code) == ("terminated", OUT_OF_MEMORY, 137)
    assert session.cause_detail == "kernel 0 ran out of memory: its limit was 1GiB, which --mem can raise"
    assert OUT_OF_MEMORY in [entry.change.code for entry in await cluster.history("s", kernels=True)]


async def test_a_report_of_another_attempt_or_kernel_moves_nothing(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    over = KernelReport(KernelId("s.0"), 2, running=False, exit_code=0)
    strange = KernelReport(KernelId("unknown"), 1, running=False, exit_code=0)
    own = KernelReport(KernelId("s.0"), 1, running=True)
    await cluster.registry.heartbeat(AgentId("a1"), AgentState(AgentId("a1"), 1, 1000, (own, over, strange)))
    await cluster.settle()
    assert await cluster.status("s") == "running"
    agent._sequence = 1000


async def test_a_late_report_of_an_earlier_incarnation_moves_nothing(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    await agent.restart()
    await cluster.settle()
    old = KernelReport(KernelId("s.0"), 1, running=False, exit_code=0)
    await cluster.registry.heartbeat(AgentId("a1"), AgentState(AgentId("a1"), 1, 1000, (old,)))
    await cluster.settle()
    assert await cluster.status("s") == "running"


async def test_ended_kernels_are_noted_once_per_count(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s", kernels=3, ends_with=EndPolicy.ALL)
    await cluster.settle()
    await agent.ends("s.0", 0)
    await cluster.pass_time(25)
    await agent.ends("s.1", 0)
    await cluster.pass_time(25)
    notes = [entry for entry in await cluster.history("s") if entry.change.code == "kernels-ended"]
    assert [(entry.times, entry.change.detail[:6]) for entry in notes] == [(2, "2 of 3")]


async def test_a_gang_that_never_grew_ends_when_all_who_came_have_ended(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1", slots={"cpu": 2000, "mem": 8 << 30})
    await cluster.submit("s", kernels=4, min_kernels=2, ends_with=EndPolicy.ALL)
    await cluster.settle()
    session = await cluster.session("s")
    assert [one.status.value for one in session.kernels] == ["running", "running", "pending", "pending"]
    await agent.ends("s.0", 0)
    await cluster.settle()
    assert await cluster.status("s") == "running"
    await agent.ends("s.1", 0)
    await cluster.pass_time(2)
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminated", "completed")
    assert [one.status.value for one in session.kernels] == ["terminated", "terminated", "cancelled", "cancelled"]
