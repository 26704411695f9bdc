"""The actions of administrators on agents, and the tokens of machines that join."""

from __future__ import annotations

from sokovan.api.mapping.times import time_text
from sokovan.domain.cluster.agent import operator_labels
from sokovan.domain.cluster.agent_grant import JOIN_TOKEN_S_MAX, JOIN_TOKEN_S_MIN, JoinAddress, JoinToken
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.domain.records import Change
from sokovan.domain.slot_notation import read_slots
from sokovan.wire.api.fleet import AgentChange
from sokovan.wire.api.tenancy import JoinTokenBody, JoinTokenLine, JoinTokenView

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


def join_token_of(body: JoinTokenBody, name: str, digest: str, *, who: str, now_ms: int) -> JoinToken:
    """The requested join token. Raises InvalidRequest, InvalidSlots, InvalidSpec."""
    if not JOIN_TOKEN_S_MIN <= body.expires_s <= JOIN_TOKEN_S_MAX:
        raise InvalidRequest([Problem("expires_s", f"must be {JOIN_TOKEN_S_MIN} to {JOIN_TOKEN_S_MAX} seconds")])
    return JoinToken(
        name=name,
        digest=digest,
        scaling_group=body.scaling_group,
        slots=read_slots(body.slots),
        labels=operator_labels({}, body.labels, ()),
        expires_ms=now_ms + body.expires_s * 1000,
        created_by=who,
    )


def join_token_view(token: JoinToken, secret: str, joining: JoinAddress) -> JoinTokenView:
    """The view of a new join token, with its secret."""
    return JoinTokenView(
        token=f"{token.name}.{secret}",
        url=joining.url,
        authority=joining.authority,
        scaling_group=token.scaling_group,
        expires_at=time_text(token.expires_ms),
        labels=dict(token.labels),
    )


def join_token_line(token: JoinToken) -> JoinTokenLine:
    """The view of a join token in a list."""
    return JoinTokenLine(
        name=token.name,
        scaling_group=token.scaling_group,
        slots=dict(token.slots),
        labels=dict(token.labels),
        created_by=token.created_by,
        expires_at=time_text(token.expires_ms),
        used_by=token.used_by,
    )
