"""The actions of administrators on agents."""

from __future__ import annotations

from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.domain.records import Change
from sokovan.wire.api.fleet import AgentChange

UNDRAIN = "undrain"
# Each action with its trigger and target status.
ACTIONS: dict[str, tuple[AgentTrigger, AgentStatus]] = {
    "drain": (AgentTrigger.DRAIN_REQUESTED, AgentStatus.DRAINING),
    UNDRAIN: (AgentTrigger.DRAIN_REVOKED, AgentStatus.ALIVE),
    "declare-gone": (AgentTrigger.DECLARED_GONE, AgentStatus.TERMINATED),
}
REASON_MAX = 1_000


def requested_transition(body: AgentChange, who: str) -> tuple[AgentTrigger, AgentStatus, Change]:
    """The requested trigger, its target status and its reason. Raises InvalidRequest."""
    if body.action not in ACTIONS:
        raise InvalidRequest([Problem("action", f"must be one of {', '.join(ACTIONS)}")])
    if len(body.reason) > REASON_MAX:
        raise InvalidRequest([Problem("reason", f"is longer than {REASON_MAX} characters")])
    return *ACTIONS[body.action], Change(who, Cause.CONTROLLER, f"admin-{body.action}", body.reason)
