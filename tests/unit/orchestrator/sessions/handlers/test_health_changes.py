"""What the changes of sessions show about agents."""

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.agent_health import HEALTHY, AgentFailure, AgentHealth, HealthLimits
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.records import FailedStart, KernelRecord, SessionRecord
from sokovan.domain.slots import NO_SLOTS
from sokovan.orchestrator.sessions.handlers.health_changes import AgentFindings, evidence, has_started
from sokovan.testing.simple_work import work_spec

A1 = AgentId("a1")
LIMITS = HealthLimits()


def kernel(status: KernelStatus, exit_code: int | None = None) -> KernelRecord:
    return KernelRecord(KernelId("s.0"), SessionId("s"), 0, status, 1, NO_SLOTS, exit_code=exit_code)


def session(status: SessionStatus, code: str, exit_code: int | None = None) -> SessionRecord:
    failed = FailedStart(1, A1, code, "no space", at_ms=5, avoid_ms=0, avoid_until_ms=5)
    kernels = (kernel(KernelStatus.RUNNING, exit_code),)
    return SessionRecord(SessionId("s"), work_spec("s"), status, 1, Goal.RUN, 0, kernels, failed_starts=(failed,))


def failure(session_id: str, at_ms: int) -> AgentFailure:
    return AgentFailure(SessionId(session_id), f"user-{session_id}", "creation-refused", "no space", at_ms)


@pytest.mark.parametrize(
    ("before", "after", "started"),
    [
        (KernelStatus.CREATING, kernel(KernelStatus.RUNNING), True),
        (None, kernel(KernelStatus.RUNNING), True),
        (KernelStatus.RUNNING, kernel(KernelStatus.RUNNING), False),
        (KernelStatus.CREATING, kernel(KernelStatus.TERMINATING, exit_code=3), True),
        (KernelStatus.CREATING, kernel(KernelStatus.TERMINATING), False),
        (KernelStatus.TERMINATING, kernel(KernelStatus.TERMINATED, exit_code=143), False),
    ],
)
def test_a_kernel_has_started_once_it_runs_or_has_ended_by_itself(
    before: KernelStatus | None, after: KernelRecord, *, started: bool
) -> None:
    assert has_started(before, after) is started


@pytest.mark.parametrize(
    ("status", "code", "exit_code", "counts"),
    [
        (SessionStatus.PENDING, "creation-refused", None, True),
        (SessionStatus.PENDING, "creating-timeout", None, True),
        (SessionStatus.PENDING, "image-unavailable", None, False),
        (SessionStatus.RUNNING, "image-unavailable", None, True),
        (SessionStatus.PENDING, "path-unavailable", None, False),
        (SessionStatus.RUNNING, "path-unavailable", None, True),
        (SessionStatus.TERMINATING, "pulling-timeout", 0, True),
        (SessionStatus.RUNNING, "prepared-timeout", None, False),
    ],
)
def test_an_image_or_folder_counts_only_if_the_session_has_started(
    status: SessionStatus, code: str, exit_code: int | None, *, counts: bool
) -> None:
    assert [agent for agent, _ in evidence(session(status, code, exit_code))] == ([A1] if counts else [])


def test_a_start_clears_the_failures_before_it_and_none_after_it() -> None:
    findings = AgentFindings(A1, [failure("s3", 30), failure("s4", 50)], started_ms=40)
    before = AgentHealth((failure("s1", 10), failure("s2", 20)))
    assert findings.applied(before, LIMITS, now_ms=60).failures == (failure("s4", 50),)


def test_a_probe_of_an_agent_that_was_cleared_meanwhile_changes_nothing() -> None:
    assert AgentFindings(A1, probe=False).applied(HEALTHY, LIMITS, now_ms=9) is HEALTHY


@pytest.mark.parametrize(
    ("findings", "before", "after", "code"),
    [
        (AgentFindings(A1), HEALTHY, AgentHealth((failure("s", 1),)), None),
        (AgentFindings(A1), HEALTHY, AgentHealth((failure("s", 1),), failing_ms=2), "agent-failing"),
        (
            AgentFindings(A1, probe=False),
            AgentHealth(failing_ms=2),
            AgentHealth(failing_ms=2, rounds=1),
            "probe-failed",
        ),
        (AgentFindings(A1, probe=True), AgentHealth(failing_ms=2), HEALTHY, "agent-recovered"),
        (AgentFindings(A1, started_ms=3), AgentHealth(failing_ms=2), HEALTHY, "agent-recovered"),
    ],
)
def test_the_history_has_what_an_operator_must_know(
    findings: AgentFindings, before: AgentHealth, after: AgentHealth, code: str | None
) -> None:
    change = findings.change(before, after)
    assert (None if change is None else change.code) == code


def test_findings_that_cannot_change_anything_are_not_written() -> None:
    healthy, failing = AgentInfo(A1, NO_SLOTS), AgentInfo(A1, NO_SLOTS, health=AgentHealth((failure("s", 1),)))
    started = AgentFindings(A1, started_ms=5)
    assert [started.matter(agent) for agent in (healthy, failing, None)] == [False, True, False]
    assert AgentFindings(A1, [failure("s", 1)]).matter(healthy)
    assert not AgentFindings(A1, [failure("s", 1)]).matter(AgentInfo(A1, NO_SLOTS, status=AgentStatus.TERMINATED))
