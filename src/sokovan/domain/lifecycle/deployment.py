"""The lifecycle of a deployment.

Degraded is a health, not a status: see `domain.serving.deployment`.
"""

from __future__ import annotations

from enum import StrEnum, auto

from sokovan.domain.lifecycle.transition_table import CONTROLLER, COORDINATOR, Deadline, TransitionTable


class DeploymentStatus(StrEnum):
    """The status of a deployment."""

    PENDING = auto()
    PROVISIONING = auto()
    RUNNING = auto()
    DESTROYING = auto()
    TERMINATED = auto()


class DeploymentTrigger(StrEnum):
    """The triggers of a deployment's transitions."""

    REPLICAS_REQUESTED = auto()
    REPLICAS_HEALTHY = auto()
    RETRIED = auto()
    SCALE_REQUESTED = auto()
    SCALED = auto()
    REVISION_ACTIVATED = auto()
    DELETE_REQUESTED = auto()
    REPLICAS_GONE = auto()
    FORCED = auto()


_S, _T = DeploymentStatus, DeploymentTrigger

DEPLOYMENT = TransitionTable(
    "deployment",
    initial=_S.PENDING,
    moves=[
        # before           trigger                after             by
        (_S.PENDING,       _T.REPLICAS_REQUESTED, _S.PROVISIONING,  COORDINATOR),
        (_S.PENDING,       _T.RETRIED,            _S.PENDING,       COORDINATOR),
        (_S.PROVISIONING,  _T.REPLICAS_HEALTHY,   _S.RUNNING,       COORDINATOR),
        (_S.PROVISIONING,  _T.RETRIED,            _S.PROVISIONING,  COORDINATOR),
        # Scaling requests set bounds; the coordinator writes the desired number between them in any state.
        (_S.PENDING,       _T.SCALE_REQUESTED,    _S.PENDING,       CONTROLLER),
        (_S.PROVISIONING,  _T.SCALE_REQUESTED,    _S.PROVISIONING,  CONTROLLER),
        (_S.RUNNING,       _T.SCALE_REQUESTED,    _S.RUNNING,       CONTROLLER),
        (_S.PENDING,       _T.SCALED,             _S.PENDING,       COORDINATOR),
        (_S.PROVISIONING,  _T.SCALED,             _S.PROVISIONING,  COORDINATOR),
        (_S.RUNNING,       _T.SCALED,             _S.RUNNING,       COORDINATOR),
        (_S.PROVISIONING,  _T.REVISION_ACTIVATED, _S.PROVISIONING,  COORDINATOR),
        (_S.RUNNING,       _T.REVISION_ACTIVATED, _S.RUNNING,       COORDINATOR),
        (_S.PENDING,       _T.DELETE_REQUESTED,   _S.DESTROYING,    CONTROLLER),
        (_S.PROVISIONING,  _T.DELETE_REQUESTED,   _S.DESTROYING,    CONTROLLER),
        (_S.RUNNING,       _T.DELETE_REQUESTED,   _S.DESTROYING,    CONTROLLER),
        (_S.DESTROYING,    _T.REPLICAS_GONE,      _S.TERMINATED,    COORDINATOR),
        (_S.DESTROYING,    _T.FORCED,             _S.TERMINATED,    CONTROLLER | COORDINATOR),
    ],
    deadlines={
        _S.PENDING:      Deadline(60, _T.RETRIED),
        _S.PROVISIONING: Deadline(7200, _T.RETRIED),
        _S.DESTROYING:   Deadline(900, _T.FORCED),
    },
    transient=(_S.PENDING, _S.PROVISIONING, _S.DESTROYING),
)  # fmt: skip
