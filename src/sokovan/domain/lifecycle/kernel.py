"""The lifecycle of a kernel: one process or container on one agent.

A kernel holds its slots from SCHEDULED until TERMINATED, and TERMINATED requires a proof
that nothing of it runs any more (GONE); so does a retry (REQUEUED). An overdue
termination is requested again; it never frees slots by itself.
"""

from __future__ import annotations

from enum import StrEnum, auto

from sokovan.domain.lifecycle.transition_table import CONTROLLER, COORDINATOR, REPORT, Deadline, TransitionTable


class KernelStatus(StrEnum):
    """The status of a kernel."""

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


class KernelTrigger(StrEnum):
    """The triggers of a kernel's transitions."""

    ALLOCATED = auto()
    WITHDRAWN = auto()
    PREPARATION_STARTED = auto()
    PULL_STARTED = auto()
    IMAGE_READY = auto()
    CREATION_REQUESTED = auto()
    STARTED = auto()
    EXITED = auto()
    STOP_REQUESTED = auto()
    FAILED = auto()
    EXPIRED = auto()
    RETRY_REQUESTED = auto()
    EVICTED = auto()
    NOTICED = auto()
    SPARED = auto()
    OVERDUE = auto()
    GONE = auto()
    REQUEUED = auto()


class FollowUp(StrEnum):
    """The state after the end of a kernel that ends alone, while its session runs."""

    REQUEUE = auto()
    CANCEL = auto()


class FreeProof(StrEnum):
    """The proofs that nothing of a kernel runs: required to free its slots."""

    NEVER_SENT = auto()
    AGENT_TOMBSTONE = auto()
    INCARNATION_FENCED = auto()
    HOST_GONE = auto()


_S, _T = KernelStatus, KernelTrigger

# In order of progress; `session_status` derives a session's progress from it.
ALIVE = (_S.SCHEDULED, _S.PREPARING, _S.PULLING, _S.PREPARED, _S.CREATING, _S.RUNNING)
HOLDS_SLOTS = frozenset({*ALIVE, _S.TERMINATING})

KERNEL = TransitionTable(
    "kernel",
    initial=_S.PENDING,
    moves=[
        # before         trigger                  after            by
        (_S.PENDING,     _T.ALLOCATED,            _S.SCHEDULED,    COORDINATOR),
        # By a report only if it is given up: its last attempt is gone.
        (_S.PENDING,     _T.WITHDRAWN,            _S.CANCELLED,    CONTROLLER | COORDINATOR | REPORT),
        (_S.SCHEDULED,   _T.PREPARATION_STARTED,  _S.PREPARING,    COORDINATOR),
        (_S.SCHEDULED,   _T.IMAGE_READY,          _S.PREPARED,     COORDINATOR | REPORT),
        (_S.PREPARING,   _T.PULL_STARTED,         _S.PULLING,      REPORT),
        (_S.PREPARING,   _T.IMAGE_READY,          _S.PREPARED,     COORDINATOR | REPORT),
        (_S.PULLING,     _T.IMAGE_READY,          _S.PREPARED,     COORDINATOR | REPORT),
        (_S.PREPARED,    _T.CREATION_REQUESTED,   _S.CREATING,     COORDINATOR),
        (_S.CREATING,    _T.STARTED,              _S.RUNNING,      REPORT),
        (_S.CREATING,    _T.EXITED,               _S.TERMINATING,  REPORT),
        (_S.RUNNING,     _T.EXITED,               _S.TERMINATING,  REPORT),
        *[(alive,        _T.STOP_REQUESTED,       _S.TERMINATING,  CONTROLLER | COORDINATOR) for alive in ALIVE],
        *[(alive,        _T.FAILED,               _S.TERMINATING,  COORDINATOR | REPORT) for alive in ALIVE],
        *[(alive,        _T.EXPIRED,              _S.TERMINATING,  COORDINATOR) for alive in ALIVE],
        *[(alive,        _T.RETRY_REQUESTED,      _S.TERMINATING,  COORDINATOR | REPORT) for alive in ALIVE],
        *[(alive,        _T.EVICTED,              _S.TERMINATING,  COORDINATOR) for alive in ALIVE],
        # Its eviction is about to be announced to it; until then it can be spared, if its room is not needed any more.
        (_S.TERMINATING, _T.NOTICED,              _S.TERMINATING,  COORDINATOR),
        (_S.TERMINATING, _T.SPARED,               _S.RUNNING,      COORDINATOR),
        (_S.TERMINATING, _T.OVERDUE,              _S.TERMINATING,  COORDINATOR),
        (_S.TERMINATING, _T.GONE,                 _S.TERMINATED,   COORDINATOR | REPORT),
        # It was evicted, or its session is retried: the next attempt waits, with a proof that nothing of this one runs.
        (_S.TERMINATING, _T.REQUEUED,             _S.PENDING,      COORDINATOR | REPORT),
    ],
    deadlines={
        _S.PENDING:     Deadline(None, _T.WITHDRAWN, set_by="the scaling group's pending timeout"),
        _S.SCHEDULED:   Deadline(60, _T.EXPIRED),
        _S.PREPARING:   Deadline(120, _T.EXPIRED),
        _S.PULLING:     Deadline(3600, _T.EXPIRED),
        _S.PREPARED:    Deadline(60, _T.EXPIRED),
        _S.CREATING:    Deadline(600, _T.EXPIRED),
        _S.RUNNING:     Deadline(None, _T.EXPIRED, set_by="the session's time limit"),
        _S.TERMINATING: Deadline(90, _T.OVERDUE),
    },
    transient=(_S.SCHEDULED, _S.PREPARING, _S.PULLING, _S.PREPARED, _S.CREATING, _S.TERMINATING),
)  # fmt: skip
