"""The lifecycle of a route from a public name to the replicas behind it.

ERROR is not final: a route whose endpoints become healthy again serves again, and a route
in ERROR can be deleted like any other.
"""

from __future__ import annotations

from enum import StrEnum, auto

from sokovan.domain.lifecycle.transition_table import CONTROLLER, COORDINATOR, Deadline, TransitionTable


class RouteStatus(StrEnum):
    """The status of a route."""

    PENDING = auto()
    PROVISIONING = auto()
    RUNNING = auto()
    ERROR = auto()
    TERMINATING = auto()
    TERMINATED = auto()


class RouteTrigger(StrEnum):
    """The triggers of a route's transitions."""

    CONFIGURED = auto()
    CONFIGURATION_REFUSED = auto()
    ENDPOINT_HEALTHY = auto()
    ENDPOINTS_CHANGED = auto()
    HEALTH_FAILED = auto()
    DELETE_REQUESTED = auto()
    CONFIGURATION_REMOVED = auto()
    FORCED = auto()


_S, _T = RouteStatus, RouteTrigger
_LIVE = (_S.PENDING, _S.PROVISIONING, _S.RUNNING, _S.ERROR)

ROUTE = TransitionTable(
    "route",
    initial=_S.PENDING,
    moves=[
        # before           trigger                    after             by
        (_S.PENDING,       _T.CONFIGURED,             _S.PROVISIONING,  COORDINATOR),
        (_S.PENDING,       _T.CONFIGURATION_REFUSED,  _S.ERROR,         COORDINATOR),
        (_S.PROVISIONING,  _T.ENDPOINT_HEALTHY,       _S.RUNNING,       COORDINATOR),
        (_S.PROVISIONING,  _T.HEALTH_FAILED,          _S.ERROR,         COORDINATOR),
        (_S.RUNNING,       _T.ENDPOINTS_CHANGED,      _S.RUNNING,       COORDINATOR),
        (_S.RUNNING,       _T.HEALTH_FAILED,          _S.ERROR,         COORDINATOR),
        (_S.ERROR,         _T.ENDPOINT_HEALTHY,       _S.RUNNING,       COORDINATOR),
        *[(live,           _T.DELETE_REQUESTED,       _S.TERMINATING,   CONTROLLER | COORDINATOR) for live in _LIVE],
        (_S.TERMINATING,   _T.CONFIGURATION_REMOVED,  _S.TERMINATED,    COORDINATOR),
        (_S.TERMINATING,   _T.FORCED,                 _S.TERMINATED,    CONTROLLER | COORDINATOR),
    ],
    deadlines={
        _S.PENDING:      Deadline(60, _T.CONFIGURATION_REFUSED),
        _S.PROVISIONING: Deadline(3600, _T.HEALTH_FAILED),
        _S.TERMINATING:  Deadline(120, _T.FORCED),
    },
    transient=(_S.PENDING, _S.PROVISIONING, _S.TERMINATING),
)  # fmt: skip
