"""The actions of administrators on agents."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.api.mapping.agent_actions import (
    ACTIONS,
    REASON_MAX,
    join_token_line,
    join_token_of,
    join_token_view,
    requested_transition,
)
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.domain.errors import InvalidInput
from sokovan.domain.lifecycle.agent import AGENT, AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.problems import InvalidRequest
from sokovan.wire.api.fleet import AgentChange
from sokovan.wire.api.tenancy import JoinTokenBody


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
    body = JoinTokenBody(slots={"cpu": "2"}, labels={"rack": "r1"}, expires_s=60)
    token = join_token_of(body, "join-1", "digest", who="root", now_ms=1_000)
    assert (token.slots["cpu"], token.expires_ms, token.created_by) == (2000, 61_000, "root")
    view = join_token_view(token, "secret", JoinAddress("wss://h:1", "sha256:0"))
    assert (view.token, view.url, view.expires_at) == ("join-1.secret", "wss://h:1", "1970-01-01T00:01:01.000Z")
    assert view.labels == {"rack": "r1"}
    line = join_token_line(replace(token, used_by="gpu2"))
    assert (line.name, line.slots, line.labels, line.created_by) == ("join-1", {"cpu": 2000}, {"rack": "r1"}, "root")
    assert (line.expires_at, line.used_by) == (view.expires_at, "gpu2")


@pytest.mark.parametrize(
    "wrong",
    [
        JoinTokenBody(expires_s=0),
        JoinTokenBody(expires_s=8 * 24 * 3600),
        JoinTokenBody(slots={"cpu": "-1"}),
        JoinTokenBody(labels={"a b": "c"}),
        JoinTokenBody(labels={"sokovan.isolation": "sandbox"}),
        JoinTokenBody(labels={f"l{number}": "x" for number in range(33)}),
    ],
)
def test_a_join_token_that_cannot_be_granted_is_refused(wrong: JoinTokenBody) -> None:
    with pytest.raises(InvalidInput):
        join_token_of(wrong, "join-1", "digest", who="root", now_ms=0)
