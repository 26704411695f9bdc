"""The lifecycle of a rollout: a deployment changes from one revision to another.

The deployment stays RUNNING throughout. Waiting for a promotion has no deadline: it is
not a failure.
"""

from __future__ import annotations

from enum import StrEnum, auto

from sokovan.domain.lifecycle.transition_table import CONTROLLER, COORDINATOR, TransitionTable


class RolloutStatus(StrEnum):
    """The status of a rollout."""

    PLANNING = auto()
    PROGRESSING = auto()
    AWAITING_PROMOTION = auto()
    PROMOTING = auto()
    ROLLING_BACK = auto()
    COMPLETED = auto()
    ROLLED_BACK = auto()


class RolloutTrigger(StrEnum):
    """The triggers of a rollout's transitions."""

    PLANNED = auto()
    STEPPED = auto()
    PROMOTION_DUE = auto()
    PROMOTED = auto()
    FINISHED = auto()
    ABORTED = auto()
    FAILED = auto()
    RESTORED = auto()


_S, _T = RolloutStatus, RolloutTrigger
_UNDER_WAY = (_S.PLANNING, _S.PROGRESSING, _S.AWAITING_PROMOTION, _S.PROMOTING)

ROLLOUT = TransitionTable(
    "rollout",
    initial=_S.PLANNING,
    moves=[
        # before                 trigger             after                   by
        (_S.PLANNING,            _T.PLANNED,         _S.PROGRESSING,         COORDINATOR),
        (_S.PROGRESSING,         _T.STEPPED,         _S.PROGRESSING,         COORDINATOR),
        (_S.PROGRESSING,         _T.PROMOTION_DUE,   _S.AWAITING_PROMOTION,  COORDINATOR),
        (_S.PROGRESSING,         _T.FINISHED,        _S.COMPLETED,           COORDINATOR),
        (_S.PROGRESSING,         _T.PROMOTED,        _S.PROMOTING,           CONTROLLER),
        (_S.AWAITING_PROMOTION,  _T.PROMOTED,        _S.PROMOTING,           CONTROLLER | COORDINATOR),
        (_S.PROMOTING,           _T.FINISHED,        _S.COMPLETED,           COORDINATOR),
        *[(state,                _T.ABORTED,         _S.ROLLING_BACK,        CONTROLLER) for state in _UNDER_WAY],
        *[(state,                _T.FAILED,          _S.ROLLING_BACK,        COORDINATOR) for state in _UNDER_WAY],
        (_S.ROLLING_BACK,        _T.RESTORED,        _S.ROLLED_BACK,         COORDINATOR),
    ],
    deadlines={},
    transient=(),
)  # fmt: skip
