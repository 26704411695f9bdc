"""Converts sessions, kernels and histories to wire types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.api.mapping.sessions import exit_code_of, history_view, is_final, session_view
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change, HistoryEntry, KernelRecord, SessionRecord, SessionResult
from sokovan.domain.session import (
    EndPolicy,
    KernelSpec,
    LostPolicy,
    Mount,
    PreemptedPolicy,
    SessionSpec,
    TopologyConstraint,
    TopologyMode,
)
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.repositories.verdicts import StoredVerdict
from tests.unit.domain.lifecycle.test_eviction import receipt

SLOTS = ResourceSlot({"cpu": 1000})


def record(
    status: SessionStatus = SessionStatus.RUNNING, codes: tuple[int | None, ...] = (None, None), group: str = ""
) -> SessionRecord:
    specs = tuple(
        KernelSpec(KernelId(f"k{index}"), SLOTS, group=group, image="host", command=("run",))
        for index in range(len(codes))
    )
    spec = SessionSpec(
        SessionId("s-1"), specs, name="train", topology=TopologyConstraint(TopologyMode.HARD, 2), min_kernels=1
    )
    kernels = tuple(
        KernelRecord(
            KernelId(f"k{index}"),
            SessionId("s-1"),
            index,
            KernelStatus.RUNNING,
            1,
            SLOTS,
            agent_id=AgentId("a1"),
            devices={"cuda.device": ("g0",)},
            exit_code=code,
        )
        for index, code in enumerate(codes)
    )
    return SessionRecord(
        SessionId("s-1"), spec, status, 3, Goal.RUN, 1000, kernels, ended_ms=5000, cause="exited", cause_detail="code 1"
    )


def test_a_session_is_shown_with_its_kernels() -> None:
    view = session_view(record())
    assert (view.id, view.name, view.status, view.size, view.minimum) == ("s-1", "train", "running", 2, 1)
    assert (view.slots, view.topology, view.command) == ({"cpu": 2000}, "hard:2", ["run"])
    assert [(one.index, one.role, one.agent) for one in view.kernels] == [(0, "main", "a1"), (1, "sub", "a1")]
    assert view.kernels[0].devices == {"cuda.device": ["g0"]}
    assert (view.submitted_at, view.ended_at) == ("1970-01-01T00:00:01.000Z", "1970-01-01T00:00:05.000Z")
    assert (view.reason, view.reason_detail, view.version) == ("exited", "code 1", 3)


def test_every_option_of_a_request_is_shown_but_no_value_of_a_variable() -> None:
    made = record()
    kernel = replace(made.spec.kernels[0], environment={"KEY": "secret", "A": "1"}, require={"zone": "a"})
    mounts = (Mount("/data", "/data"), Mount("/out", "/o", read_only=False))
    options: dict[str, Any] = {
        "stop_grace_s": 30,
        "tolerates_failures": True,
        "on_agent_lost": LostPolicy.REQUEUE,
        "on_preempt": PreemptedPolicy.REQUEUE,
        "mounts": mounts,
    }
    spec = replace(made.spec, kernels=(kernel, *made.spec.kernels[1:]), ends_with=EndPolicy.MAIN, **options)
    view = session_view(replace(made, spec=spec))
    assert (view.environment, view.mounts) == (["A", "KEY"], ["/data:/data:ro", "/out:/o:rw"])
    assert (view.require, view.architecture) == ({"zone": "a"}, "x86_64")
    assert (view.stop_grace_s, view.ends_with, view.tolerates_failures) == (30, "main", True)
    assert (view.on_agent_lost, view.on_preempt) == ("requeue", "requeue")


def test_evictions_are_shown_and_takers_of_other_users_are_not_named() -> None:
    made = record()
    mine = replace(receipt(1_000_000), for_user=made.spec.owner.user, for_name="urgent").ended(1_005_000, None)
    other = replace(receipt(2_000_000, 2), for_user="somebody else", for_name="secret", saves_every_s=60)
    view = session_view(replace(made, evictions=(mine, other), checkpoint_ms=5_000))
    assert [(one.number, one.for_session, one.lost_slot_s) for one in view.evictions] == [
        (1, "taker", 210),
        (2, "", 200),
    ]
    assert [(one.for_name, one.saves_every_s) for one in view.evictions] == [("urgent", None), ("", 60)]
    assert [one.ended_at for one in view.evictions] == ["1970-01-01T00:16:45.000Z", None]
    assert view.checkpoint_at == "1970-01-01T00:00:05.000Z"


def test_kernels_of_a_group_have_its_name_as_their_role() -> None:
    assert {one.role for one in session_view(record(group="worker")).kernels} == {"worker"}


def test_the_pending_reason_is_the_schedulers_and_only_while_it_waits() -> None:
    verdict = StoredVerdict(SessionId("s-1"), "NO_NODES", "there are none", "{}")
    waiting = session_view(record(SessionStatus.PENDING), verdict)
    assert (waiting.reason, waiting.reason_detail) == ("NO_NODES", "there are none")
    assert session_view(record(), verdict).reason == "exited"


def test_a_session_without_a_name_is_called_by_its_id() -> None:
    whole = record()
    plain = SessionRecord(
        whole.session_id,
        SessionSpec(whole.session_id, whole.spec.kernels),
        whole.status,
        1,
        Goal.STOP,
        0,
        whole.kernels,
        result=SessionResult.SUCCESS,
    )
    view = session_view(plain)
    assert (view.name, view.goal, view.result, view.topology) == ("s-1", "stop", "success", None)


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ((0, 0), 0),
        ((0, 3), 3),
        ((143, 3), 3),
        ((137, 143), 137),
        ((None, 0), 0),
        ((None, None), None),
        ((2, 1), 2),
    ],
)
def test_the_exit_code_is_the_most_informative_one(codes: tuple[int | None, ...], code: int | None) -> None:
    assert exit_code_of(record(SessionStatus.TERMINATED, codes)) == code


def ended(codes: tuple[int | None, ...], result: SessionResult) -> SessionRecord:
    """A session that ends with its main kernel, whatever becomes of the others."""
    whole = record(SessionStatus.TERMINATED, codes)
    spec = replace(whole.spec, ends_with=EndPolicy.MAIN, tolerates_failures=True)
    return replace(whole, spec=spec, result=result)


@pytest.mark.parametrize(
    ("codes", "result", "code"),
    [
        ((0, 5), SessionResult.SUCCESS, 0),
        ((0, 143), SessionResult.SUCCESS, 0),
        ((3, 5), SessionResult.FAILURE, 3),
        ((137, 5), SessionResult.FAILURE, 137),
        ((None, 5), SessionResult.FAILURE, 5),
    ],
)
def test_the_exit_code_agrees_with_the_result(codes: tuple[int | None, ...], result: SessionResult, code: int) -> None:
    assert exit_code_of(ended(codes, result)) == code


def test_an_interactive_session_ended_by_its_user_has_succeeded() -> None:
    whole = replace(record(SessionStatus.TERMINATED, (143, 143)), result=SessionResult.SUCCESS)
    assert exit_code_of(whole) == 0


def test_a_session_that_goes_on_has_no_exit_code() -> None:
    assert exit_code_of(record(SessionStatus.TERMINATING, (0, 1))) is None
    assert not is_final(record())
    assert is_final(record(SessionStatus.CANCELLED))


def test_a_history_is_converted_entry_by_entry() -> None:
    change = Change("alice", Cause.CONTROLLER, "user-requested", "enough")
    entry = HistoryEntry(2, "running", "terminating", "stop_requested", change, 1000, 2000, times=3)
    line = history_view(record(), [("k0", entry)]).lines[0]
    assert (line.subject, line.sequence, line.before, line.after) == ("k0", 2, "running", "terminating")
    assert (line.who, line.code, line.detail, line.times) == ("alice", "user-requested", "enough", 3)
    assert (line.at, line.last_at) == ("1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z")


@pytest.mark.parametrize(
    ("cause", "result", "shown"),
    [
        ("user-requested", SessionResult.FAILURE, "cancelled"),
        ("forced-by-user", SessionResult.FAILURE, "cancelled"),
        ("user-requested", SessionResult.SUCCESS, "success"),
        ("kernel-failed", SessionResult.FAILURE, "failure"),
    ],
)
def test_a_session_that_a_user_ended_is_cancelled_and_not_failed(cause: str, result: SessionResult, shown: str) -> None:
    assert session_view(replace(ended((143,), result), cause=cause)).result == shown
