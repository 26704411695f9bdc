"""The lifecycle of a session, derived from its kernels.

A session's status is a total function of its intent and of its kernels' statuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum, auto

from sokovan.domain.checks import require_int, require_kind
from sokovan.domain.errors import IllegalTransition
from sokovan.domain.lifecycle.kernel import ALIVE as KERNEL_ALIVE
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.transition_table import CONTROLLER, COORDINATOR, REPORT, Deadline, TransitionTable


class SessionStatus(StrEnum):
    """The status of a session."""

    PENDING = auto()
    SCHEDULED = auto()
    PREPARING = auto()
    PULLING = auto()
    PREPARED = auto()
    CREATING = auto()
    RUNNING = auto()
    TERMINATING = auto()
    TERMINATED = auto()
    CANCELLED = auto()


class SessionTrigger(StrEnum):
    """The triggers of a session's transitions."""

    ALLOCATED = auto()
    WITHDRAWN = auto()
    PREPARATION_STARTED = auto()
    PULL_STARTED = auto()
    IMAGES_READY = auto()
    CREATION_REQUESTED = auto()
    KERNELS_RUNNING = auto()
    KERNEL_EXITED = auto()
    STOP_REQUESTED = auto()
    FAILED = auto()
    EXPIRED = auto()
    RETRY_REQUESTED = auto()
    PREEMPTED = auto()
    SPARED = auto()
    KERNELS_GONE = auto()
    REQUEUED = auto()
    FORCED = auto()


_S, _T = SessionStatus, SessionTrigger
_ALIVE = tuple(SessionStatus(status.value) for status in KERNEL_ALIVE)

SESSION = TransitionTable(
    "session",
    initial=_S.PENDING,
    moves=[
        # before         trigger                  after            by
        (_S.PENDING,     _T.ALLOCATED,            _S.SCHEDULED,    COORDINATOR),
        (_S.PENDING,     _T.WITHDRAWN,            _S.CANCELLED,    CONTROLLER | COORDINATOR),
        (_S.SCHEDULED,   _T.PREPARATION_STARTED,  _S.PREPARING,    COORDINATOR),
        (_S.SCHEDULED,   _T.PULL_STARTED,         _S.PULLING,      COORDINATOR | REPORT),
        (_S.SCHEDULED,   _T.IMAGES_READY,         _S.PREPARED,     COORDINATOR | REPORT),
        (_S.PREPARING,   _T.PULL_STARTED,         _S.PULLING,      COORDINATOR | REPORT),
        (_S.PREPARING,   _T.IMAGES_READY,         _S.PREPARED,     COORDINATOR | REPORT),
        (_S.PULLING,     _T.IMAGES_READY,         _S.PREPARED,     COORDINATOR | REPORT),
        (_S.PREPARED,    _T.CREATION_REQUESTED,   _S.CREATING,     COORDINATOR),
        (_S.CREATING,    _T.KERNELS_RUNNING,      _S.RUNNING,      COORDINATOR | REPORT),
        *[(alive,        _T.KERNEL_EXITED,        _S.TERMINATING,  COORDINATOR | REPORT) for alive in _ALIVE],
        *[(alive,        _T.STOP_REQUESTED,       _S.TERMINATING,  CONTROLLER | COORDINATOR) for alive in _ALIVE],
        *[(alive,        _T.FAILED,               _S.TERMINATING,  COORDINATOR | REPORT) for alive in _ALIVE],
        *[(alive,        _T.EXPIRED,              _S.TERMINATING,  COORDINATOR) for alive in _ALIVE],
        *[(alive,        _T.RETRY_REQUESTED,      _S.TERMINATING,  COORDINATOR | REPORT) for alive in _ALIVE],
        # One that starts is protected until it runs, from all but bookings.
        *[(alive,        _T.PREEMPTED,            _S.TERMINATING,  COORDINATOR) for alive in _ALIVE],
        # The session that it was evicted for does not need the room any more, and it had no notice yet.
        (_S.TERMINATING, _T.SPARED,               _S.RUNNING,      COORDINATOR),
        (_S.TERMINATING, _T.KERNELS_GONE,         _S.TERMINATED,   COORDINATOR | REPORT),
        # It was to be retried, and is stopped before: the history has the cause of its end.
        (_S.TERMINATING, _T.STOP_REQUESTED,       _S.TERMINATING,  CONTROLLER | COORDINATOR),
        # A failed start is retried, and so is an evicted session: once nothing of the attempt runs, all kernels wait.
        (_S.TERMINATING, _T.REQUEUED,             _S.PENDING,      COORDINATOR | REPORT),
        # The session ends at once for the user; its kernels stay TERMINATING and keep their slots until a proof.
        (_S.TERMINATING, _T.FORCED,               _S.TERMINATED,   CONTROLLER | COORDINATOR),
    ],
    deadlines={
        _S.PENDING:     Deadline(None, _T.WITHDRAWN, set_by="the scaling group's pending timeout"),
        _S.SCHEDULED:   Deadline(60, _T.EXPIRED),
        _S.PREPARING:   Deadline(120, _T.EXPIRED),
        _S.PULLING:     Deadline(3600, _T.EXPIRED),
        _S.PREPARED:    Deadline(60, _T.EXPIRED),
        _S.CREATING:    Deadline(600, _T.EXPIRED),
        _S.RUNNING:     Deadline(None, _T.EXPIRED, set_by="the session's time limit"),
        _S.TERMINATING: Deadline(600, _T.FORCED),
    },
    transient=(_S.SCHEDULED, _S.PREPARING, _S.PULLING, _S.PREPARED, _S.CREATING, _S.TERMINATING),
)  # fmt: skip


class Goal(IntEnum):
    """The desired state of a session. It only rises: RUN, then STOP, then FORCE."""

    RUN = 0
    STOP = 1
    FORCE = 2


@dataclass(frozen=True, slots=True)
class SessionIntent:
    """The goal, and how many running kernels make the session RUNNING."""

    goal: Goal = Goal.RUN
    required: int = 1

    def __post_init__(self) -> None:
        require_kind(self.goal, Goal, what="session intent", field="goal")
        require_int(self.required, what="session intent", field="required", least=1)


def session_status(intent: SessionIntent, kernels: Iterable[KernelStatus]) -> SessionStatus:
    """The status for an intent and kernel statuses; defined for every combination.

    A session has the status of its `required`-th most advanced kernel, so that kernels
    beyond the minimum that start later do not set it back. One kernel that ends ends the
    session. `kernels` must not contain rows that a newer attempt replaced.
    """
    counts = Counter(kernels)  # gangs are large, and have few different statuses
    alive = any(status in counts for status in KERNEL_ALIVE)
    ending = KernelStatus.TERMINATING in counts or KernelStatus.TERMINATED in counts
    waiting = KernelStatus.PENDING in counts or not counts
    if not alive and not ending:
        return _S.PENDING if waiting and intent.goal is Goal.RUN else _S.CANCELLED
    if intent.goal is Goal.FORCE or counts.keys() <= {KernelStatus.TERMINATED, KernelStatus.CANCELLED}:
        return _S.TERMINATED
    if ending or intent.goal is Goal.STOP:
        return _S.TERMINATING
    so_far = 0
    for kernel, session in zip(reversed(KERNEL_ALIVE), reversed(_ALIVE), strict=True):
        so_far += counts[kernel]
        if so_far >= intent.required:
            return session
    # Gangs are placed whole, so no plan leads here; the answer lets such a session be terminated.
    return _S.SCHEDULED


def deciding_statuses(kernels: Iterable[tuple[KernelStatus, bool]]) -> tuple[KernelStatus, ...]:
    """The kernel statuses that decide a session's status.

    The flag says that a kernel ends alone. While others are alive, such a kernel counts as
    one that waits: its end does not end the session.
    """
    known = tuple(kernels)
    statuses = tuple([status for status, _ in known])
    if not any(alone for _, alone in known) or not any(status in KERNEL_ALIVE for status in statuses):
        return statuses
    return tuple(
        KernelStatus.PENDING if alone and status is KernelStatus.TERMINATING else status for status, alone in known
    )


def deciding_counts(kernels: Mapping[tuple[KernelStatus, bool], int]) -> Counter[KernelStatus]:
    """Like `deciding_statuses`, of kernels that are only counted."""
    some_alone = any(alone for _, alone in kernels) and any(status in KERNEL_ALIVE for status, _ in kernels)
    counts = Counter[KernelStatus]()
    for (status, alone), count in kernels.items():
        waits = some_alone and alone and status is KernelStatus.TERMINATING
        counts[KernelStatus.PENDING if waits else status] += count
    return counts


# Several triggers lead to TERMINATING; which one it was follows from what happened to the kernel.
_ENDED_BY: dict[KernelTrigger, SessionTrigger] = {
    KernelTrigger.EXITED: _T.KERNEL_EXITED,
    KernelTrigger.STOP_REQUESTED: _T.STOP_REQUESTED,
    KernelTrigger.FAILED: _T.FAILED,
    KernelTrigger.EXPIRED: _T.EXPIRED,
    KernelTrigger.RETRY_REQUESTED: _T.RETRY_REQUESTED,
    KernelTrigger.EVICTED: _T.PREEMPTED,
}


# Every trigger that leads from one state to another, in the order of the rows.
_TRIGGERS: dict[tuple[SessionStatus, SessionStatus], tuple[SessionTrigger, ...]] = {
    (one.before, one.after): tuple(
        move.trigger for move in SESSION.moves if (move.before, move.after) == (one.before, one.after)
    )
    for one in SESSION.moves
}


def following_trigger(before: SessionStatus, after: SessionStatus, kernel_trigger: KernelTrigger) -> SessionTrigger:
    """The session's trigger for a transition caused by a kernel's trigger.

    Raises IllegalTransition if the table has no row from `before` to `after`.
    """
    found = _TRIGGERS.get((before, after), ())
    if _ENDED_BY.get(kernel_trigger) in found:
        return _ENDED_BY[kernel_trigger]
    if not found:
        legal = [trigger.value for trigger in SESSION.legal_in(before)]
        raise IllegalTransition(machine=SESSION.name, state=before, trigger=f"a transition to {after}", legal=legal)
    return found[0]
