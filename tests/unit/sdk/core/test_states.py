"""Session states as the client sees them."""

from __future__ import annotations

import pytest

from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.sdk.core.states import (
    ENDED,
    FINAL,
    STATES,
    checked_state,
    has_run,
    has_settled,
    needs_explaining,
    reached,
    still_waiting,
    where,
)
from sokovan.sdk.errors import InvalidSetting, NeverReached
from tests.unit.sdk.views import KERNEL, ended, pending, session


def test_the_states_are_those_of_the_server() -> None:
    assert set(STATES) == {status.value.upper() for status in SessionStatus}
    assert {status.value.upper() for status in SESSION.terminal} == FINAL


def test_a_state_may_be_written_small() -> None:
    assert checked_state("running") == "RUNNING"
    assert checked_state("ended") == ENDED


def test_an_unknown_state_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidSetting, match="RUNNING"):
        checked_state("walking")


@pytest.mark.parametrize(
    ("status", "target", "expected"),
    [
        ("pending", "RUNNING", False),
        ("pending", "PENDING", True),
        ("creating", "SCHEDULED", True),
        ("running", "RUNNING", True),
        ("running", "ENDED", False),
        ("running", "TERMINATED", False),
        ("terminating", "TERMINATING", True),
        ("hibernating", "RUNNING", False),
    ],
)
def test_a_state_is_reached_when_it_is_current_or_passed(status: str, target: str, *, expected: bool) -> None:
    assert reached(session(status=status), target) is expected


@pytest.mark.parametrize(
    ("status", "settled"), [("pending", True), ("running", False), ("terminating", False), ("terminated", True)]
)
def test_ended_and_requeued_sessions_have_settled(status: str, *, settled: bool) -> None:
    assert has_settled(session(status=status)) is settled


def test_a_terminated_session_has_run() -> None:
    view = ended(exit_code=3)
    for target in ("RUNNING", "SCHEDULED", "TERMINATED", "TERMINATING", "ENDED", "PENDING"):
        assert reached(view, target)


@pytest.mark.parametrize("target", ["RUNNING", "TERMINATED"])
def test_a_cancelled_session_never_ran(target: str) -> None:
    with pytest.raises(NeverReached, match="user-requested"):
        reached(pending(status="cancelled", reason="user-requested"), target)


def test_a_session_that_failed_to_start_never_ran() -> None:
    with pytest.raises(NeverReached, match="no such image"):
        reached(pending(status="terminated", reason="image", reason_detail="no such image"), "RUNNING")


def test_a_terminated_session_was_never_cancelled() -> None:
    with pytest.raises(NeverReached):
        reached(ended(), "CANCELLED")


def test_where_names_each_agent_once() -> None:
    kernels = [KERNEL, KERNEL]
    assert where(session(kernels=kernels)) == ["a1"]
    assert where(pending()) == []


def test_running_and_successful_sessions_need_no_explanation() -> None:
    assert needs_explaining(pending())
    assert needs_explaining(ended(exit_code=1))
    assert not needs_explaining(session())
    assert not needs_explaining(ended())
    assert has_run(session())
    assert not has_run(pending())


def test_a_timeout_names_the_state_of_the_session() -> None:
    assert still_waiting("s-1", pending(), 1.5).message == "ddp is still PENDING after 1.5 s"
    assert still_waiting("s-1", None, 60).message == "no response for s-1 after 60 s"
