"""The lifecycle of a replica: one attempt to run one place of a revision.

A replica that failed or is gone is never started again: its place gets a new attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.checks import require_int
from sokovan.domain.ids import DeploymentId, checked_name
from sokovan.domain.lifecycle.transition_table import CONTROLLER, COORDINATOR, REPORT, Deadline, TransitionTable


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """The place of a session in a deployment; unique, so that creation is idempotent."""

    deployment_id: DeploymentId
    revision: int
    ordinal: int
    attempt: int

    def __post_init__(self) -> None:
        checked_name(self.deployment_id, what="deployment")
        for field, least in (("revision", 1), ("ordinal", 0), ("attempt", 1)):
            require_int(getattr(self, field), what="replica", field=field, least=least)

    @property
    def key(self) -> str:
        """The idempotency key of its session."""
        return f"replica/{self.deployment_id}/{self.revision}/{self.ordinal}/{self.attempt}"


class ReplicaStatus(StrEnum):
    """The status of a replica."""

    PENDING = auto()
    STARTING = auto()
    WARMING = auto()
    ACTIVE = auto()
    UNHEALTHY = auto()
    DRAINING = auto()
    STOPPING = auto()
    FAILED = auto()
    GONE = auto()


class ReplicaTrigger(StrEnum):
    """The triggers of a replica's transitions."""

    ENQUEUED = auto()
    REFUSED = auto()
    KERNEL_RUNNING = auto()
    CHECKS_PASSED = auto()
    CHECKS_FAILED = auto()
    STARTUP_EXPIRED = auto()
    DRAIN_REQUESTED = auto()
    DRAINED = auto()
    DRAIN_EXPIRED = auto()
    STOP_REQUESTED = auto()
    REPLACED = auto()
    EXITED = auto()
    SESSION_ENDED = auto()


_S, _T = ReplicaStatus, ReplicaTrigger
_CHECKED = COORDINATOR | REPORT

REPLICA = TransitionTable(
    "replica",
    initial=_S.PENDING,
    moves=[
        # before         trigger              after           by
        (_S.PENDING,     _T.ENQUEUED,         _S.STARTING,    COORDINATOR),
        (_S.PENDING,     _T.REFUSED,          _S.FAILED,      COORDINATOR),
        (_S.PENDING,     _T.STOP_REQUESTED,   _S.GONE,        CONTROLLER | COORDINATOR),
        (_S.STARTING,    _T.KERNEL_RUNNING,   _S.WARMING,     COORDINATOR),
        (_S.STARTING,    _T.EXITED,           _S.FAILED,      COORDINATOR),
        (_S.STARTING,    _T.STARTUP_EXPIRED,  _S.FAILED,      COORDINATOR),
        (_S.STARTING,    _T.STOP_REQUESTED,   _S.STOPPING,    CONTROLLER | COORDINATOR),
        (_S.WARMING,     _T.CHECKS_PASSED,    _S.ACTIVE,      _CHECKED),
        (_S.WARMING,     _T.EXITED,           _S.FAILED,      COORDINATOR),
        (_S.WARMING,     _T.STARTUP_EXPIRED,  _S.FAILED,      COORDINATOR),
        (_S.WARMING,     _T.STOP_REQUESTED,   _S.STOPPING,    CONTROLLER | COORDINATOR),
        (_S.ACTIVE,      _T.DRAIN_REQUESTED,  _S.DRAINING,    CONTROLLER | COORDINATOR),
        (_S.ACTIVE,      _T.CHECKS_FAILED,    _S.UNHEALTHY,   _CHECKED),
        (_S.ACTIVE,      _T.EXITED,           _S.FAILED,      COORDINATOR),
        (_S.UNHEALTHY,   _T.CHECKS_PASSED,    _S.ACTIVE,      _CHECKED),
        (_S.UNHEALTHY,   _T.REPLACED,         _S.STOPPING,    COORDINATOR),
        (_S.UNHEALTHY,   _T.DRAIN_REQUESTED,  _S.DRAINING,    CONTROLLER | COORDINATOR),
        (_S.UNHEALTHY,   _T.EXITED,           _S.FAILED,      COORDINATOR),
        (_S.DRAINING,    _T.DRAINED,          _S.STOPPING,    COORDINATOR),
        (_S.DRAINING,    _T.DRAIN_EXPIRED,    _S.STOPPING,    COORDINATOR),
        (_S.DRAINING,    _T.REPLACED,         _S.FAILED,      COORDINATOR),
        (_S.DRAINING,    _T.SESSION_ENDED,    _S.GONE,        COORDINATOR),
        (_S.STOPPING,    _T.SESSION_ENDED,    _S.GONE,        COORDINATOR),
    ],
    deadlines={
        # A replica that waits for room is not late; its time to start counts from the start of its kernel.
        _S.STARTING:  Deadline(None, _T.STARTUP_EXPIRED, set_by="the lifecycle of its session"),
        _S.WARMING:   Deadline(1800, _T.STARTUP_EXPIRED),
        _S.UNHEALTHY: Deadline(30, _T.REPLACED),
        _S.DRAINING:  Deadline(300, _T.DRAIN_EXPIRED),
    },
    transient=(_S.WARMING, _S.UNHEALTHY, _S.DRAINING),
)  # fmt: skip

# Statuses in which it counts towards the number of replicas that is wanted.
COUNTED = frozenset({_S.PENDING, _S.STARTING, _S.WARMING, _S.ACTIVE, _S.UNHEALTHY})
# Statuses in which proxies know its address.
ROUTED = frozenset({_S.WARMING, _S.ACTIVE, _S.UNHEALTHY, _S.DRAINING})
# Statuses in which its session must not run, or not much longer.
ENDING = frozenset({_S.STOPPING, _S.FAILED, _S.GONE})
