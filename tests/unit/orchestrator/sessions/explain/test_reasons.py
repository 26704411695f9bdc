"""Explanations put together from verdicts and histories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import Change, HistoryEntry, KernelRecord, SessionRecord, SessionResult
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.explain.reasons import (
    PROBLEM_S,
    SHOWN_MAX,
    RelatedSessions,
    explain_stage,
    explain_waiting,
    past_reasons,
    read_verdict,
)
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.scheduling.codec import verdict_to_json
from sokovan.scheduling.trace import Advice, Check, Code, Funnel, Verdict
from sokovan.testing.stored_cluster import session_spec

NOW = 1_000_000
S1 = SessionId("s1")


def record(status: SessionStatus, *, kernels: int = 1, **options: Any) -> SessionRecord:
    kernel_options = options.pop("kernel", {})
    spec = options.pop("spec", session_spec("s1", kernels=kernels, name="train"))
    rows = tuple(
        KernelRecord(
            KernelId(f"s1.{index}"),
            S1,
            index,
            KernelStatus(status.value),
            1,
            ResourceSlot({"cpu": 1000}),
            agent_id=None if status in {SessionStatus.PENDING, SessionStatus.CANCELLED} else AgentId(f"a{index}"),
            **kernel_options,
        )
        for index in range(kernels)
    )
    given = {"version": 1, "goal": Goal.RUN, "submitted_ms": 0, "place": 7, **options}
    return SessionRecord(S1, spec, status, kernels=rows, **given)


def note(status: SessionStatus, code: str, detail: str = "", *, at_ms: int = NOW, times: int = 1) -> HistoryEntry:
    change = Change("coordinator", Cause.COORDINATOR, code, detail)
    return HistoryEntry(2, status.value, status.value, "noted", change, at_ms, at_ms, times)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (SessionStatus.PENDING, "NOT_SEEN_YET"),
        (SessionStatus.SCHEDULED, "PREPARING"),
        (SessionStatus.PREPARING, "PREPARING"),
        (SessionStatus.PULLING, "IMAGE_PULLING"),
        (SessionStatus.PREPARED, "STARTING"),
        (SessionStatus.CREATING, "STARTING"),
        (SessionStatus.RUNNING, "RUNNING"),
        (SessionStatus.TERMINATING, "ENDING"),
    ],
)
def test_every_status_has_its_stage(status: SessionStatus, code: str) -> None:
    found = explain_stage(record(status), [], now_ms=NOW)

    assert (found.code, found.status) == (code, status)
    assert found.summary


def test_a_running_session_says_where_it_runs() -> None:
    found = explain_stage(record(SessionStatus.RUNNING, kernels=2), [], now_ms=NOW)

    assert found.summary == "2 of 2 kernels running on a0, a1"
    assert found.verdict is Advice.NOTHING


def test_a_large_gang_does_not_flood_the_screen() -> None:
    found = explain_stage(record(SessionStatus.RUNNING, kernels=50), [], now_ms=NOW)

    assert found.summary.endswith(f"and {50 - SHOWN_MAX} more")


@pytest.mark.parametrize(
    ("code", "stage", "advice"),
    [
        ("image-unavailable", "IMAGE_NOT_FOUND", Advice.CHANGE),
        ("agent-unreachable", "AGENT_UNREACHABLE", Advice.WAIT),
        ("handler-failed", "RETRY_BACKOFF", Advice.WAIT),
    ],
)
def test_a_problem_in_the_history_is_explained(code: str, stage: str, advice: Advice) -> None:
    history = [note(SessionStatus.CREATING, code, "a1 does not answer", times=3)]

    found = explain_stage(record(SessionStatus.CREATING), history, now_ms=NOW)

    assert (found.code, found.verdict) == (stage, advice)
    assert found.summary == "1 of 1 kernels creating on a0; a1 does not answer (3 times)"


def test_a_note_without_a_problem_reports_progress() -> None:
    history = [note(SessionStatus.PULLING, "pulling", "venv:torch: Collecting numpy")]

    found = explain_stage(record(SessionStatus.PULLING), history, now_ms=NOW)

    assert found.code == "IMAGE_PULLING"
    assert found.summary == "1 of 1 kernels pulling on a0; venv:torch: Collecting numpy"


def test_an_end_that_takes_long_says_what_it_waits_for() -> None:
    ending = record(SessionStatus.TERMINATING, cause="user-requested")
    history = [note(SessionStatus.TERMINATING, "agent-unreachable", "a0 is away")]

    found = explain_stage(ending, history, now_ms=NOW)

    assert (found.code, found.summary) == ("AGENT_UNREACHABLE", "is terminating: user-requested; a0 is away")


def test_a_trouble_that_was_not_seen_again_is_over() -> None:
    history = [note(SessionStatus.RUNNING, "agent-unreachable", at_ms=NOW - PROBLEM_S * 1000 - 1)]

    assert explain_stage(record(SessionStatus.RUNNING), history, now_ms=NOW).code == "RUNNING"


def test_a_problem_of_an_earlier_status_is_over() -> None:
    history = [note(SessionStatus.PULLING, "agent-unreachable")]

    assert explain_stage(record(SessionStatus.RUNNING), history, now_ms=NOW).code == "RUNNING"


@pytest.mark.parametrize(
    ("options", "code", "advice"),
    [
        ({"result": SessionResult.SUCCESS, "cause": "kernel_exited"}, "SUCCEEDED", Advice.NOTHING),
        ({"result": SessionResult.FAILURE, "cause": "kernel_exited"}, "FAILED", Advice.BROKEN),
        ({"result": SessionResult.FAILURE, "cause": "user-requested"}, "STOPPED", Advice.NOTHING),
        ({"result": SessionResult.SUCCESS, "cause": "user-requested"}, "STOPPED", Advice.NOTHING),
        ({"result": SessionResult.FAILURE, "cause": "forced-by-user"}, "STOPPED", Advice.NOTHING),
        ({"result": SessionResult.FAILURE, "cause": "image-unavailable"}, "IMAGE_NOT_FOUND", Advice.CHANGE),
        ({"result": SessionResult.FAILURE, "cause": "out-of-memory"}, "OUT_OF_MEMORY", Advice.CHANGE),
        ({"result": SessionResult.FAILURE, "cause": "kernel-failed"}, "COMMAND_FAILED", Advice.CHANGE),
        ({"result": SessionResult.FAILURE, "cause": "time-limit"}, "TIME_LIMIT_REACHED", Advice.CHANGE),
        ({"result": SessionResult.FAILURE, "cause": "creating-timeout"}, "FAILED", Advice.BROKEN),
    ],
)
def test_an_ended_session_is_explained_by_its_cause(options: dict[str, Any], code: str, advice: Advice) -> None:
    ended = record(SessionStatus.TERMINATED, ended_ms=NOW, cause_detail="because", **options)

    found = explain_stage(ended, [], now_ms=NOW)

    assert (found.code, found.verdict) == (code, advice)
    assert found.summary == f"ended: {options['cause']}: because"


def test_a_cancelled_session_is_explained_by_its_cause() -> None:
    found = explain_stage(record(SessionStatus.CANCELLED, ended_ms=NOW, cause="pending-timeout"), [], now_ms=NOW)

    assert (found.code, found.summary) == ("CANCELLED", "ended: pending-timeout")


def test_kernels_that_ended_badly_are_named() -> None:
    ended = record(
        SessionStatus.TERMINATED, kernels=2, ended_ms=NOW, result=SessionResult.FAILURE, kernel={"exit_code": 3}
    )

    found = explain_stage(ended, [], now_ms=NOW)

    assert Check("kernel 1", "no", "exit code 3 on a1") in found.checks


@pytest.mark.parametrize(
    ("code", "text"),
    [(1, "exit code 1"), (128, "exit code 128"), (137, "exit code 137 (128 + signal 9)"), (255, "exit code 255")],
)
def test_an_exit_code_includes_the_signal(code: int, text: str) -> None:
    ended = record(SessionStatus.TERMINATED, ended_ms=NOW, result=SessionResult.FAILURE, kernel={"exit_code": code})

    assert Check("kernel 0", "no", f"{text} on a0") in explain_stage(ended, [], now_ms=NOW).checks


def test_a_session_that_still_grows_says_so() -> None:
    growing = record(SessionStatus.RUNNING, kernels=3)
    late = replace(growing.kernels[2], status=KernelStatus.PENDING, agent_id=None)

    found = explain_stage(replace(growing, kernels=(*growing.kernels[:2], late)), [], now_ms=NOW)

    assert Check("growth", "short", "1 kernel beyond the minimum waits for room") in found.checks


def test_a_verdict_is_explained_completely() -> None:
    verdict = Verdict(
        S1,
        Code.NOT_ENOUGH_FREE,
        "no room",
        checks=(Check("room", "short", "no room"),),
        funnel=Funnel(3, 3, 3, 3, 2, 0, 0),
        position=4,
    )

    found = explain_waiting(record(SessionStatus.PENDING), verdict, as_of_ms=NOW)

    assert (found.code, found.verdict, found.summary, found.position) == ("NOT_ENOUGH_FREE", Advice.WAIT, "no room", 4)
    assert found.checks == verdict.checks
    assert found.funnel["could_ever_fit"] == 2
    assert found.as_of_ms == NOW


def test_sessions_ahead_have_a_reason_and_those_of_others_neither_name_nor_id() -> None:
    session = record(SessionStatus.PENDING)

    def other(name: str, *, place: int = 1, **options: Any) -> SessionRecord:
        spec = session_spec(name, name=f"name-of-{name}", **options)
        return replace(session, session_id=SessionId(name), spec=spec, place=place)

    found = explain_waiting(
        session,
        Verdict(S1, Code.NOT_ENOUGH_FREE, ""),
        as_of_ms=NOW,
        related=RelatedSessions(
            ahead=[
                other("s-mine", priority=5),
                other("s-foreign", owner=Owner(user="bob")),
                other("s-young", place=99),
            ],
            visible=[SessionId("s-mine"), SessionId("s-young")],
        ),
    )

    assert [(one.session, one.why) for one in found.ahead] == [
        ("name-of-s-mine", "has priority 5, this one 0"),
        ("a session of another user", "is earlier in queue default"),
        ("name-of-s-young", "comes first in queue default by the order of its scheduler"),
    ]


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"status": SessionStatus.RUNNING}, Advice.WAIT),
        ({"status": SessionStatus.TERMINATED, "ended_ms": NOW, "result": SessionResult.FAILURE}, Advice.CHANGE),
    ],
)
def test_dependencies_are_named_and_a_failed_one_needs_a_change(options: dict[str, Any], advice: Advice) -> None:
    session = record(SessionStatus.PENDING)
    before = replace(session, session_id=SessionId("s-0"), spec=session_spec("s-0", name="prepare"), **options)
    verdict = Verdict(S1, Code.DEPENDENCY, "s-0 is not done", checks=(Check("dependencies", "no", "s-0 is not done"),))

    found = explain_waiting(
        session, verdict, as_of_ms=NOW, related=RelatedSessions(awaited=[before], visible=[before.session_id])
    )

    assert (found.verdict, found.summary) == (advice, "prepare (s-0) is not done")
    assert found.checks == (Check("dependencies", "no", "prepare (s-0) is not done"),)


def test_reasons_of_the_past_are_counted_and_keep_their_order() -> None:
    pending = SessionStatus.PENDING
    moved = HistoryEntry(1, None, "pending", "submitted", Change("alice", Cause.CONTROLLER, "submitted"), 1, 1)
    history = [
        moved,
        note(pending, "NOT_ENOUGH_FREE", "a", at_ms=10, times=5),
        note(pending, "QUOTA_USER", "b", at_ms=20),
        note(pending, "NOT_ENOUGH_FREE", "c", at_ms=30, times=2),
    ]

    free, quota = past_reasons(history)

    assert (free.code, free.count, free.first_ms, free.last_ms, free.summary) == ("NOT_ENOUGH_FREE", 7, 10, 30, "c")
    assert (quota.code, quota.count) == ("QUOTA_USER", 1)


def test_a_kept_verdict_is_read_back_without_loss() -> None:
    verdict = Verdict(
        S1,
        Code.FRAGMENTED,
        "half of it",
        checks=(Check("room", "short", "x"),),
        funnel=Funnel(1, 1, 1, 1, 1, 1, 0),
        shortfall=ResourceSlot({"cpu": 5}),
        best_agent="a1",
        kernels_fit=1,
        kernels_needed=2,
        position=3,
        ahead=(SessionId("s0"),),
    )

    assert read_verdict(StoredVerdict(S1, verdict.code, verdict.summary, verdict_to_json(verdict))) == verdict


def test_a_verdict_of_an_unknown_format_still_has_its_code() -> None:
    stored = StoredVerdict(S1, "NEVER_FITS", "no agent could ever hold it", "{}")

    assert read_verdict(stored) == Verdict(S1, Code.NEVER_FITS, "no agent could ever hold it")
    assert read_verdict(StoredVerdict(S1, "SOMETHING_NEW", "", "{}")) is None
    assert read_verdict(None) is None
