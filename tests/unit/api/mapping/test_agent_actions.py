"""The actions of administrators on agents."""

from __future__ import annotations

import pytest

from sokovan.api.mapping.agent_actions import (
    ACTIONS,
    REASON_MAX,
    join_token_of,
    join_token_view,
    requested_transition,
)
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.domain.lifecycle.agent import AGENT, AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.problems import InvalidRequest
from sokovan.wire.api.fleet import AgentChange, JoinTokenBody


def test_an_action_is_a_move_of_the_table_that_a_controller_may_make() -> None:
    for trigger, goal in ACTIONS.values():
        moves = [move for move in AGENT.moves if move.trigger is trigger]
        assert {move.after for move in moves} == {goal}
        assert all(Cause.CONTROLLER in move.causes for move in moves)


def test_a_transition_has_its_author_and_reason() -> None:
    trigger, goal, change = requested_transition(AgentChange(action="drain", reason="new disks"), "root")
    assert (trigger, goal) == (AgentTrigger.DRAIN_REQUESTED, AgentStatus.DRAINING)
    assert (change.who, change.by, change.code, change.detail) == (
        "root",
        Cause.CONTROLLER,
        "admin-drain",
        "new disks",
    )


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (AgentChange(action="explode"), "action"),
        (AgentChange(action=""), "action"),
        (AgentChange(action="drain", reason="x" * (REASON_MAX + 1)), "reason"),
    ],
)
def test_what_is_no_action_is_refused(change: AgentChange, place: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        requested_transition(change, "root")
    assert refused.value.problems[0].where == place


def test_a_join_token_has_the_requested_limits_and_a_time() -> None:
    token = join_token_of(JoinTokenBody(slots={"cpu": "2"}, expires_s=60), "join-1", "digest", now_ms=1_000)
    assert (token.slots["cpu"], token.expires_ms) == (2000, 61_000)
    view = join_token_view(token, "secret", JoinAddress("wss://h:1", "sha256:0"))
    assert (view.token, view.url, view.expires_at) == ("join-1.secret", "wss://h:1", "1970-01-01T00:01:01.000Z")
    for wrong in (0, 8 * 24 * 3600):
        with pytest.raises(InvalidRequest):
            join_token_of(JoinTokenBody(expires_s=wrong), "join-1", "digest", now_ms=0)
