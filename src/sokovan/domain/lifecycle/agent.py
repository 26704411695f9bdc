"""The lifecycle of an agent, as the manager sees it.

Missed heartbeats make an agent SUSPECT first and LOST later, so that a short network
failure moves no work. DRAINING is kept while heartbeats are missing: it was requested by
an operator.
"""

from __future__ import annotations

from enum import StrEnum, auto

from sokovan.domain.lifecycle.transition_table import CONTROLLER, COORDINATOR, REPORT, Deadline, TransitionTable


class AgentStatus(StrEnum):
    """The status of an agent."""

    ALIVE = auto()
    SUSPECT = auto()
    DRAINING = auto()
    LOST = auto()
    TERMINATED = auto()


class AgentTrigger(StrEnum):
    """The triggers of an agent's transitions."""

    HEARTBEAT_MISSED = auto()
    HEARTBEAT_RESUMED = auto()
    DECLARED_LOST = auto()
    REJOINED = auto()
    REJOINED_DRAINING = auto()
    DRAIN_REQUESTED = auto()
    DRAIN_REVOKED = auto()
    LEFT = auto()
    DECLARED_GONE = auto()


_S, _T = AgentStatus, AgentTrigger

# New kernels are placed on agents in these states only.
SCHEDULABLE = frozenset({_S.ALIVE})

AGENT = TransitionTable(
    "agent",
    initial=_S.ALIVE,
    moves=[
        # before       trigger                after           by
        (_S.ALIVE,     _T.HEARTBEAT_MISSED,   _S.SUSPECT,     COORDINATOR),
        (_S.SUSPECT,   _T.HEARTBEAT_RESUMED,  _S.ALIVE,       REPORT),
        (_S.SUSPECT,   _T.DECLARED_LOST,      _S.LOST,        COORDINATOR),
        (_S.DRAINING,  _T.DECLARED_LOST,      _S.LOST,        COORDINATOR),
        (_S.LOST,      _T.REJOINED,           _S.ALIVE,       REPORT),
        (_S.LOST,      _T.REJOINED_DRAINING,  _S.DRAINING,    REPORT),
        (_S.ALIVE,     _T.DRAIN_REQUESTED,    _S.DRAINING,    CONTROLLER),
        (_S.SUSPECT,   _T.DRAIN_REQUESTED,    _S.DRAINING,    CONTROLLER),
        (_S.DRAINING,  _T.DRAIN_REVOKED,      _S.ALIVE,       CONTROLLER),
        (_S.ALIVE,     _T.LEFT,               _S.TERMINATED,  REPORT),
        (_S.DRAINING,  _T.LEFT,               _S.TERMINATED,  REPORT),
        (_S.LOST,      _T.DECLARED_GONE,      _S.TERMINATED,  CONTROLLER),
    ],
    deadlines={
        _S.SUSPECT: Deadline(45, _T.DECLARED_LOST),
    },
    transient=(_S.SUSPECT,),
)  # fmt: skip
