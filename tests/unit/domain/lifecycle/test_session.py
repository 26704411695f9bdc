"""The life of a session: the moves of the state diagram, and how they follow from the kernels."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement
from typing import Any

import pytest

from sokovan.domain.errors import ForbiddenCause, InvalidSpec
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import (
    SESSION,
    Goal,
    SessionIntent,
    SessionStatus,
    SessionTrigger,
    deciding_counts,
    deciding_statuses,
    session_status,
)
from sokovan.domain.lifecycle.transition_table import Cause
from tests.unit.domain.lifecycle.arrows import arrows, causes, drawn, entrances, limits

# The table of session states, row by row.
TABLE = drawn("""
    PENDING -> SCHEDULED
    PENDING -> CANCELLED
    SCHEDULED -> PREPARED
    SCHEDULED -> TERMINATING
    PREPARED -> CREATING
    PREPARED -> TERMINATING
    CREATING -> RUNNING
    CREATING -> TERMINATING
    RUNNING -> TERMINATING
    TERMINATING -> TERMINATED
""")
# What it leaves out: the two steps of preparation, of which a gang may be in several at once.
PREPARATION = drawn("""
    SCHEDULED -> PREPARING -> PULLING -> PREPARED
    SCHEDULED -> PULLING
    PREPARING -> PREPARED
    PREPARING -> TERMINATING
    PULLING -> TERMINATING
""")
# A failed start is retried, or stopped before its retry.
RETRIED = drawn("""
    TERMINATING -> PENDING
    TERMINATING -> TERMINATING
""")
# An eviction that is withdrawn before its notice.
SPARED = drawn("TERMINATING -> RUNNING")
LIVE = ["scheduled", "preparing", "pulling", "prepared", "creating", "running"]


def status(kernels: str, *, goal: Goal = Goal.RUN, required: int | None = None) -> str:
    """The status of a session with kernels of these statuses; all of them are the gang."""
    statuses = [KernelStatus(status) for status in kernels.split()]
    return str(session_status(SessionIntent(goal, required or len(statuses) or 1), statuses))


def test_the_moves_are_those_of_the_table_with_preparation_in_two_steps() -> None:
    assert arrows(SESSION) == TABLE | PREPARATION | RETRIED | SPARED


def test_a_session_can_only_be_cancelled_while_it_is_pending() -> None:
    assert entrances(SESSION, "cancelled") == {"pending"}


def test_a_session_can_be_terminated_from_every_live_state() -> None:
    assert entrances(SESSION, "terminating") == {*LIVE, "terminating"}


@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize(
    "end",
    [SessionTrigger.STOP_REQUESTED, SessionTrigger.FAILED, SessionTrigger.EXPIRED, SessionTrigger.KERNEL_EXITED],
)
def test_every_ending_leads_through_terminating(state: str, end: SessionTrigger) -> None:
    assert SESSION.after(SessionStatus(state), end, by=Cause.COORDINATOR) is SessionStatus.TERMINATING


@pytest.mark.parametrize(
    ("trigger", "allowed"),
    [
        (SessionTrigger.ALLOCATED, {Cause.COORDINATOR}),
        (SessionTrigger.WITHDRAWN, {Cause.CONTROLLER, Cause.COORDINATOR}),
        (SessionTrigger.PREPARATION_STARTED, {Cause.COORDINATOR}),
        (SessionTrigger.PULL_STARTED, {Cause.COORDINATOR, Cause.AGENT_REPORT}),
        (SessionTrigger.IMAGES_READY, {Cause.COORDINATOR, Cause.AGENT_REPORT}),
        (SessionTrigger.CREATION_REQUESTED, {Cause.COORDINATOR}),
        (SessionTrigger.KERNELS_RUNNING, {Cause.COORDINATOR, Cause.AGENT_REPORT}),
        (SessionTrigger.KERNEL_EXITED, {Cause.COORDINATOR, Cause.AGENT_REPORT}),
        (SessionTrigger.STOP_REQUESTED, {Cause.CONTROLLER, Cause.COORDINATOR}),
        (SessionTrigger.FAILED, {Cause.COORDINATOR, Cause.AGENT_REPORT}),
        (SessionTrigger.EXPIRED, {Cause.COORDINATOR}),
        (SessionTrigger.KERNELS_GONE, {Cause.COORDINATOR, Cause.AGENT_REPORT}),
        (SessionTrigger.FORCED, {Cause.CONTROLLER, Cause.COORDINATOR}),
    ],
)
def test_each_trigger_is_pulled_by_those_who_can_know(trigger: SessionTrigger, allowed: set[Cause]) -> None:
    assert causes(SESSION, trigger) == allowed


def test_a_controller_only_marks_and_cannot_start_a_session() -> None:
    with pytest.raises(ForbiddenCause):
        SESSION.after(SessionStatus.CREATING, SessionTrigger.KERNELS_RUNNING, by=Cause.CONTROLLER)


def test_an_agent_cannot_stop_a_session() -> None:
    with pytest.raises(ForbiddenCause):
        SESSION.after(SessionStatus.RUNNING, SessionTrigger.STOP_REQUESTED, by=Cause.AGENT_REPORT)


def test_every_state_but_the_final_ones_has_a_limit_and_a_way_out() -> None:
    assert limits(SESSION) == {
        "pending": (None, "cancelled"),
        "scheduled": (60, "terminating"),
        "preparing": (120, "terminating"),
        "pulling": (3600, "terminating"),
        "prepared": (60, "terminating"),
        "creating": (600, "terminating"),
        "running": (None, "terminating"),
        "terminating": (600, "terminated"),
    }
    assert {state.value for state in SESSION.transient} == {*LIVE, "terminating"} - {"running"}


@pytest.mark.parametrize("state", ["pending", *LIVE, "terminating", "terminated", "cancelled"])
def test_a_session_of_one_kernel_is_where_its_kernel_is(state: str) -> None:
    assert status(state) == state


def test_a_gang_is_as_far_as_its_slowest_kernel() -> None:
    assert status("running running creating") == "creating"
    assert status("prepared pulling preparing") == "preparing"
    assert status("running running running") == "running"


def test_a_gang_runs_with_its_minimum_and_kernels_that_come_later_do_not_set_it_back() -> None:
    assert status("running running pending", required=2) == "running"
    assert status("running running scheduled", required=2) == "running"
    assert status("running creating pulling", required=2) == "creating"


def test_one_kernel_that_ends_ends_the_session() -> None:
    assert status("running running terminating") == "terminating"
    assert status("running running terminated", required=2) == "terminating"


def test_a_session_is_terminated_with_its_last_kernel() -> None:
    assert status("terminated terminated terminating") == "terminating"
    assert status("terminated terminated terminated") == "terminated"
    assert status("terminated cancelled cancelled", required=1) == "terminated"


def test_a_kernel_that_waits_still_holds_up_the_end() -> None:
    assert status("terminated pending", required=1) == "terminating"


def test_stopping_cancels_what_waits_and_terminates_what_has_a_place() -> None:
    assert status("pending pending", goal=Goal.STOP) == "cancelled"
    assert status("scheduled scheduled", goal=Goal.STOP) == "terminating"
    assert status("running running", goal=Goal.STOP) == "terminating"


def test_forcing_ends_what_the_user_sees_while_kernels_are_still_on_their_way_out() -> None:
    assert status("terminating running", goal=Goal.FORCE) == "terminated"
    assert status("pending pending", goal=Goal.FORCE) == "cancelled"


def test_a_session_without_kernel_rows_waits_until_it_is_stopped() -> None:
    assert status("") == "pending"
    assert status("", goal=Goal.STOP) == "cancelled"


def test_a_gang_in_part_is_an_accident_that_can_still_be_terminated() -> None:
    assert status("running pending pending") == "scheduled"


def test_a_session_shall_run_with_one_kernel_by_default() -> None:
    assert SessionIntent() == SessionIntent(goal=Goal.RUN, required=1)


def test_the_goal_only_rises() -> None:
    assert sorted(Goal) == [Goal.RUN, Goal.STOP, Goal.FORCE]


@pytest.mark.parametrize(
    "wrong", [{"required": 0}, {"required": True}, {"required": "2"}, {"goal": 1}, {"goal": "stop"}]
)
def test_an_intent_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match=f"session intent: {next(iter(wrong))}"):
        SessionIntent(**wrong)


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ("running terminating*", "running"),
        ("running creating terminating*", "running"),
        ("terminating terminating*", "terminating"),
        ("running terminating terminating*", "terminating"),
        ("terminated terminating*", "terminating"),
        ("running cancelled", "running"),
    ],
)
def test_a_kernel_that_ends_alone_does_not_end_its_session(kernels: str, expected: str) -> None:
    flagged = [(KernelStatus(one.rstrip("*")), one.endswith("*")) for one in kernels.split()]
    assert session_status(SessionIntent(Goal.RUN, 1), deciding_statuses(flagged)) == expected


@pytest.mark.parametrize("goal", Goal)
def test_kernels_that_are_counted_decide_as_they_do_one_by_one(goal: Goal) -> None:
    states = [(status, alone) for status in KernelStatus for alone in (False, True)]
    for kernels in combinations_with_replacement(states, 3):
        counts, intent = deciding_counts(Counter(kernels)), SessionIntent(goal, 2)
        assert counts == Counter(deciding_statuses(kernels))
        assert session_status(intent, counts) is session_status(intent, deciding_statuses(kernels))
