"""The life of a kernel: the moves of the state diagram, who may make them, and what holds slots."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import ForbiddenCause, IllegalTransition
from sokovan.domain.lifecycle.kernel import ALIVE, HOLDS_SLOTS, KERNEL, FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from tests.unit.domain.lifecycle.arrows import arrows, causes, drawn, entrances, limits

# The diagram for sessions and kernels, with the two steps of preparation that it leaves out.
DIAGRAM = drawn("""
    PENDING -> SCHEDULED -> PREPARED -> CREATING -> RUNNING -> TERMINATING -> TERMINATED
    PENDING -> CANCELLED
    SCHEDULED -> TERMINATING
    PREPARED -> TERMINATING
    CREATING -> TERMINATING
""")
PREPARATION = drawn("""
    SCHEDULED -> PREPARING -> PULLING -> PREPARED
    PREPARING -> PREPARED
    PREPARING -> TERMINATING
    PULLING -> TERMINATING
""")
ASKED_FOR_AGAIN = drawn("TERMINATING -> TERMINATING")
RETRIED = drawn("TERMINATING -> PENDING")
# An eviction that is withdrawn before its notice.
SPARED = drawn("TERMINATING -> RUNNING")

live = pytest.mark.parametrize("state", ALIVE)


def test_the_moves_are_those_of_the_diagram_with_preparation_in_two_steps() -> None:
    assert arrows(KERNEL) == DIAGRAM | PREPARATION | ASKED_FOR_AGAIN | RETRIED | SPARED


def test_a_kernel_can_only_be_cancelled_before_it_has_a_place() -> None:
    assert entrances(KERNEL, "cancelled") == {"pending"}


@live
@pytest.mark.parametrize(
    "end",
    [KernelTrigger.STOP_REQUESTED, KernelTrigger.FAILED, KernelTrigger.EXPIRED, KernelTrigger.RETRY_REQUESTED],
)
def test_a_live_kernel_terminates_by_every_trigger_that_ends_it(state: KernelStatus, end: KernelTrigger) -> None:
    assert KERNEL.after(state, end, by=Cause.COORDINATOR) is KernelStatus.TERMINATING


def test_progress_goes_forward_only() -> None:
    for move in KERNEL.moves:
        if move.before in ALIVE and move.after in ALIVE:
            assert ALIVE.index(move.before) < ALIVE.index(move.after)


def test_a_kernel_is_terminated_only_by_the_proof_that_it_is_gone() -> None:
    last = [move for move in KERNEL.moves if move.after is KernelStatus.TERMINATED]
    assert [(move.before, move.trigger) for move in last] == [(KernelStatus.TERMINATING, KernelTrigger.GONE)]


def test_there_are_four_proofs_that_nothing_of_a_kernel_runs() -> None:
    assert list(FreeProof) == ["never_sent", "agent_tombstone", "incarnation_fenced", "host_gone"]


def test_an_overdue_termination_is_requested_again_and_frees_nothing() -> None:
    again = KERNEL.expiry(KernelStatus.TERMINATING).after
    assert again is KernelStatus.TERMINATING
    assert again in HOLDS_SLOTS


def test_slots_are_held_from_the_place_to_the_proof() -> None:
    assert set(KernelStatus) - HOLDS_SLOTS == {KernelStatus.PENDING, KernelStatus.TERMINATED, KernelStatus.CANCELLED}


@pytest.mark.parametrize(
    ("trigger", "allowed"),
    [
        (KernelTrigger.ALLOCATED, {Cause.COORDINATOR}),
        (KernelTrigger.WITHDRAWN, {Cause.CONTROLLER, Cause.COORDINATOR, Cause.AGENT_REPORT}),
        (KernelTrigger.PREPARATION_STARTED, {Cause.COORDINATOR}),
        (KernelTrigger.PULL_STARTED, {Cause.AGENT_REPORT}),
        (KernelTrigger.IMAGE_READY, {Cause.COORDINATOR, Cause.AGENT_REPORT}),
        (KernelTrigger.CREATION_REQUESTED, {Cause.COORDINATOR}),
        (KernelTrigger.STARTED, {Cause.AGENT_REPORT}),
        (KernelTrigger.EXITED, {Cause.AGENT_REPORT}),
        (KernelTrigger.STOP_REQUESTED, {Cause.CONTROLLER, Cause.COORDINATOR}),
        (KernelTrigger.FAILED, {Cause.COORDINATOR, Cause.AGENT_REPORT}),
        (KernelTrigger.EXPIRED, {Cause.COORDINATOR}),
        (KernelTrigger.OVERDUE, {Cause.COORDINATOR}),
        (KernelTrigger.GONE, {Cause.COORDINATOR, Cause.AGENT_REPORT}),
    ],
)
def test_each_trigger_is_pulled_by_those_who_can_know(trigger: KernelTrigger, allowed: set[Cause]) -> None:
    assert causes(KERNEL, trigger) == allowed


def test_a_controller_cannot_claim_that_a_kernel_started() -> None:
    with pytest.raises(ForbiddenCause, match="started of a kernel may come from agent_report, not from controller"):
        KERNEL.after(KernelStatus.CREATING, KernelTrigger.STARTED, by=Cause.CONTROLLER)


def test_an_agent_cannot_start_a_kernel_that_was_not_assigned() -> None:
    with pytest.raises(ForbiddenCause, match="allocated of a kernel may come from coordinator, not from agent_report"):
        KERNEL.after(KernelStatus.PENDING, KernelTrigger.ALLOCATED, by=Cause.AGENT_REPORT)


def test_a_late_report_of_a_start_does_not_bring_a_kernel_back() -> None:
    for state in (KernelStatus.TERMINATING, KernelStatus.TERMINATED, KernelStatus.CANCELLED):
        with pytest.raises(IllegalTransition):
            KERNEL.after(state, KernelTrigger.STARTED, by=Cause.AGENT_REPORT)


def test_every_state_but_the_final_ones_has_a_limit_and_a_way_out() -> None:
    assert limits(KERNEL) == {
        "pending": (None, "cancelled"),
        "scheduled": (60, "terminating"),
        "preparing": (120, "terminating"),
        "pulling": (3600, "terminating"),
        "prepared": (60, "terminating"),
        "creating": (600, "terminating"),
        "running": (None, "terminating"),
        "terminating": (90, "terminating"),
    }
    assert KERNEL.transient == set(HOLDS_SLOTS) - {KernelStatus.RUNNING}
