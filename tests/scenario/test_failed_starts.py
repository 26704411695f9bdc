"""Sessions whose start fails on one agent start on another."""

from typing import Any

import pytest

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.sessions.explain.why import WhyService
from sokovan.testing.acting_agents import ActingAgent
from sokovan.testing.ledger_rows import ledger_rows
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow  # many cycles through the store per test

# An agent of this size holds one kernel of it.
JUST_ONE: dict[str, int] = {"cpu": 1000, "mem": 1 << 30}


async def two_agents(cluster: OrchestratedCluster) -> tuple[ActingAgent, ActingAgent]:
    """Two equal agents; the first is chosen before the second."""
    return await cluster.agent("a1"), await cluster.agent("a2")


def assert_retried(session: SessionRecord, bad: ActingAgent, good: ActingAgent, code: str) -> None:
    """The first attempt failed on one agent, the second runs on the other."""
    assert (session.status, session.cause, session.result) == ("running", None, None)
    assert [(one.attempt, one.agent_id, one.sent) for one in session.kernels] == [(2, good.agent_id, True)]
    assert (good.running(), bad.running()) == (["s.0"], [])
    assert [(one.attempt, one.agent_id, one.code) for one in session.failed_starts] == [(1, bad.agent_id, code)]


async def test_a_refused_creation_is_retried_on_another_agent(cluster: OrchestratedCluster) -> None:
    bad, good = await two_agents(cluster)
    bad.script.start_problem = "no space left on device"
    await cluster.submit("s")
    await cluster.settle()
    session = await cluster.session("s")
    assert_retried(session, bad, good, "creation-refused")
    assert "no space left on device" in session.failed_starts[0].detail
    assert set((await cluster.used("a1")).values()) <= {0}
    moves = [(one.trigger, one.change.code) for one in await cluster.history("s")]
    assert ("retry_requested", "creation-refused") in moves
    assert "requeued" in [trigger for trigger, _ in moves]


async def test_an_image_that_fails_on_one_agent_is_tried_on_another(cluster: OrchestratedCluster) -> None:
    bad, good = await two_agents(cluster)
    bad.script.broken["python"] = "manifest unknown"
    await cluster.submit("s")
    await cluster.settle()
    assert_retried(await cluster.session("s"), bad, good, "image-unavailable")


async def test_a_pull_that_takes_too_long_is_retried_on_another_agent(cluster: OrchestratedCluster) -> None:
    bad, good = await two_agents(cluster)
    bad.script.pulls.add("python")
    await cluster.submit("s")
    await cluster.settle()
    assert await cluster.status("s") == "pulling"
    await cluster.pass_time(3_660, step_s=10)
    assert_retried(await cluster.session("s"), bad, good, "pulling-timeout")


async def test_a_creation_that_takes_too_long_is_retried_with_proof_of_its_end(cluster: OrchestratedCluster) -> None:
    bad, good = await two_agents(cluster)
    bad.script.slow = True
    await cluster.submit("s")
    await cluster.settle()
    await cluster.pass_time(620, step_s=10)
    waiting = await cluster.session("s")
    assert (waiting.status, waiting.is_retried, good.running()) == ("terminating", True, [])
    await bad.begin("s.0")
    await cluster.pass_time(5)
    assert_retried(await cluster.session("s"), bad, good, "creating-timeout")
    held = await ledger_rows(cluster.store, waiting.kernels[0].kernel_id)
    assert {(one.agent_id, one.proof) for one in held} == {("a1", "agent_tombstone"), ("a2", None)}


async def test_a_gang_is_retried_whole(cluster: OrchestratedCluster) -> None:
    slots: dict[str, Any] = {"cpu": 2000, "mem": 1 << 30}
    bad, good = await cluster.agent("a1", slots=slots), await cluster.agent("a2", slots=slots)
    third = await cluster.agent("a3", slots=slots)
    bad.script.start_problem = "no space left on device"
    await cluster.submit("s", kernels=2, slots=slots)
    await cluster.settle()
    session = await cluster.session("s")
    assert session.status == "running"
    assert [(one.attempt, one.agent_id) for one in session.kernels] == [(2, "a2"), (2, "a3")]
    assert (bad.running(), len(good.running()), len(third.running())) == ([], 1, 1)
    assert max([*good.started.values(), *third.started.values()]) == 1


async def test_running_kernels_of_a_gang_are_retried_too(cluster: OrchestratedCluster) -> None:
    slots: dict[str, Any] = {"cpu": 2000, "mem": 1 << 30}
    late, good = await cluster.agent("a1", slots=slots), await cluster.agent("a2", slots=slots)
    await cluster.agent("a3", slots=slots)
    late.script.slow = True
    await cluster.submit("s", kernels=2, slots=slots)
    await cluster.settle()
    assert (await cluster.status("s"), good.running()) == ("creating", ["s.1"])
    await cluster.pass_time(620, step_s=10)
    await late.begin("s.0")
    await cluster.pass_time(20)
    session = await cluster.session("s")
    assert [(one.attempt, one.agent_id, one.status) for one in session.kernels] == [
        (2, "a2", "running"),
        (2, "a3", "running"),
    ]
    moves = [(one.before, one.trigger) for one in await cluster.history("s", kernels=True)]
    assert ("running", "retry_requested") in moves


async def test_a_start_that_fails_everywhere_ends_the_session_after_its_attempts(cluster: OrchestratedCluster) -> None:
    for agent in await two_agents(cluster):
        agent.script.start_problem = "no space left on device"
    await cluster.submit("s")
    await cluster.pass_time(2)
    waiting = await cluster.session("s")
    assert (waiting.status, waiting.kernels[0].attempt) == ("pending", 3)
    verdict = await cluster.store.read(lambda unit: unit.verdicts.get(waiting.session_id))
    assert verdict is not None
    assert verdict.code == "AGENTS_AVOIDED"
    await cluster.pass_time(6)
    session = await cluster.session("s")
    assert (session.status, session.cause) == ("terminated", "creation-refused")
    assert [(one.attempt, one.agent_id) for one in session.failed_starts] == [(1, "a1"), (2, "a2"), (3, "a1")]


async def test_a_single_attempt_is_not_retried(cluster: OrchestratedCluster) -> None:
    bad, _ = await two_agents(cluster)
    bad.script.start_problem = "no space left on device"
    await cluster.submit("s", retry=RetryPolicy(attempts=1))
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.status, session.cause, session.attempt) == ("terminated", "creation-refused", 1)


async def test_a_retry_that_may_use_the_same_agent_waits_for_the_backoff(cluster: OrchestratedCluster) -> None:
    bad, _ = await two_agents(cluster)
    bad.script.start_problem = "no space left on device"
    await cluster.submit("s", retry=RetryPolicy(elsewhere=False, backoff_s=20))
    await cluster.settle()
    await cluster.pass_time(15)
    assert await cluster.status("s") == "pending"
    bad.script.start_problem = ""
    await cluster.pass_time(7)
    session = await cluster.session("s")
    assert [(one.attempt, one.agent_id, one.status) for one in session.kernels] == [(2, "a1", "running")]


@pytest.mark.parametrize("forced", [False, True])
async def test_a_session_that_is_stopped_while_it_is_retried_ends(cluster: OrchestratedCluster, forced: bool) -> None:
    bad, _ = await two_agents(cluster)
    bad.script.slow = True
    await cluster.submit("s")
    await cluster.settle()
    await cluster.pass_time(620, step_s=10)
    await cluster.stop("s", forced=forced)
    await bad.begin("s.0")
    await cluster.pass_time(5)
    session = await cluster.session("s")
    assert (session.status, session.attempt, session.result) == ("terminated", 1, "failure")
    assert session.cause not in {None, "over", "creating-timeout"}


@pytest.mark.parametrize("attempts", [1, 3])
async def test_why_shows_the_failed_attempt(cluster: OrchestratedCluster, attempts: int) -> None:
    bad, _ = await two_agents(cluster)
    bad.script.start_problem = "no space left on device"
    await cluster.submit("s", retry=RetryPolicy(attempts=attempts))
    await cluster.settle()
    why = await WhyService(cluster.store).why((await cluster.session("s")).session_id)
    assert any("no space left on device" in check.detail and "a1" in check.detail for check in why.checks)


WIDE: dict[str, Any] = {"cpu": 2000, "mem": 1 << 30}


async def growing(cluster: OrchestratedCluster, **options: Any) -> ActingAgent:
    """A session that runs with one of two kernels, and an agent that starts nothing; each agent holds one kernel."""
    await cluster.agent("a1", slots=WIDE)
    await cluster.submit("s", kernels=2, min_kernels=1, slots=WIDE, **options)
    await cluster.settle()
    assert await cluster.status("s") == "running"
    bad = await cluster.agent("a2", slots=WIDE)
    bad.script.start_problem = "no space left on device"
    return bad


async def test_a_kernel_that_cannot_join_a_running_session_is_retried_alone(cluster: OrchestratedCluster) -> None:
    bad = await growing(cluster)
    await cluster.settle()
    waiting = await cluster.session("s")
    assert [(one.status, one.attempt, one.agent_id) for one in waiting.kernels] == [
        ("running", 1, "a1"),
        ("pending", 2, None),
    ]
    good = await cluster.agent("a3", slots=WIDE)
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.status, session.cause) == ("running", None)
    assert [(one.status, one.attempt, one.rank) for one in session.kernels] == [("running", 1, 0), ("running", 2, 1)]
    assert (good.running(), bad.running()) == (["s.1"], [])
    assert [(one.attempt, one.agent_id) for one in session.failed_starts] == [(1, "a2")]
    assert set((await cluster.used("a2")).values()) <= {0}


async def test_a_kernel_that_cannot_join_at_all_is_given_up_and_the_session_goes_on(
    cluster: OrchestratedCluster,
) -> None:
    await growing(cluster, retry=RetryPolicy(attempts=2, backoff_s=3))
    await cluster.pass_time(25)
    session = await cluster.session("s")
    assert (session.status, session.cause, session.result) == ("running", None, None)
    assert [(one.status, one.rank) for one in session.kernels] == [("running", 0), ("cancelled", None)]
    assert [(one.attempt, one.agent_id) for one in session.failed_starts] == [(1, "a2"), (2, "a2")]
    reasons = [one.change.detail for one in await cluster.history("s", kernels=True) if one.after == "cancelled"]
    assert len(reasons) == 1
    assert set((await cluster.used("a2")).values()) <= {0}
    await cluster.agents.all[AgentId("a1")].ends("s.0")
    await cluster.pass_time(2)
    assert (await cluster.session("s")).result == "success"


async def test_a_late_start_of_a_running_session_is_retried_with_proof_of_its_end(
    cluster: OrchestratedCluster,
) -> None:
    bad = await growing(cluster)
    bad.script.start_problem, bad.script.slow = "", True
    await cluster.settle()
    await cluster.pass_time(620, step_s=10)
    ending = await cluster.session("s")
    assert (ending.status, [one.status for one in ending.kernels]) == ("running", ["running", "terminating"])
    await cluster.agent("a3", slots=WIDE)
    await bad.begin("s.1")
    await cluster.pass_time(25)
    session = await cluster.session("s")
    assert [(one.status, one.agent_id) for one in session.kernels] == [("running", "a1"), ("running", "a3")]


@pytest.mark.parametrize("forced", [False, True])
async def test_a_running_session_is_stopped_while_a_kernel_of_it_is_retried(
    cluster: OrchestratedCluster, forced: bool
) -> None:
    bad = await growing(cluster)
    bad.script.start_problem, bad.script.slow = "", True
    await cluster.settle()
    await cluster.pass_time(620, step_s=10)
    await cluster.stop("s", forced=forced)
    await cluster.settle()
    await bad.begin("s.1")
    await cluster.pass_time(5)
    session = await cluster.session("s")
    assert (session.status, [one.status for one in session.kernels]) == ("terminated", ["terminated", "terminated"])


async def test_a_session_is_retried_whole_if_its_first_rank_did_not_start(cluster: OrchestratedCluster) -> None:
    first = await cluster.agent("a1", slots=WIDE)
    await cluster.agent("a2", slots=WIDE)
    first.script.slow = True
    await cluster.submit("s", kernels=2, min_kernels=1, slots=WIDE)
    await cluster.settle()
    running = await cluster.session("s")
    assert (running.status, [one.status for one in running.kernels]) == ("running", ["creating", "running"])
    await cluster.pass_time(620, step_s=10)
    await cluster.agent("a3", slots=WIDE)
    await first.begin("s.0")
    await cluster.pass_time(10)
    session = await cluster.session("s")
    assert (session.status, session.cause) == ("running", None)
    assert [(one.status, one.attempt, one.rank) for one in session.kernels] == [("running", 2, 0), ("running", 2, 1)]


async def test_a_kernel_of_a_running_session_is_tried_again_when_its_agent_is_no_longer_avoided(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.agent("a1", slots=JUST_ONE)
    await cluster.submit("s", kernels=2, min_kernels=1, retry=RetryPolicy(backoff_s=3), slots=JUST_ONE)
    await cluster.settle()
    assert (await cluster.session("s")).kernels[0].status == "running"
    late = await cluster.agent("a2", slots=JUST_ONE)
    late.script.start_problem = "no space left on device"
    await cluster.settle()
    await cluster.pass_time(1)
    late.script.start_problem = ""
    assert (await cluster.session("s")).kernels[1].status == "pending"
    await cluster.pass_time(3)
    assert [one.status for one in (await cluster.session("s")).kernels] == ["running", "running"]


async def test_a_time_to_wait_for_ends_with_the_session_that_waits(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.start_problem = "no space left on device"
    await cluster.submit("s", retry=RetryPolicy(backoff_s=3))
    await cluster.settle()
    await cluster.stop("s")
    await cluster.pass_time(5)
    assert await cluster.status("s") in {"terminated", "cancelled"}
    assert cluster.coordinator._context.scheduler.next_due_s() is None
