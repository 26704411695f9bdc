"""The actions of administrators on agents."""

from __future__ import annotations

import pytest

from sokovan.api.mapping.agent_actions import ACTIONS, REASON_MAX, requested_transition
from sokovan.domain.lifecycle.agent import AGENT, AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.problems import InvalidRequest
from sokovan.wire.api.fleet import AgentChange


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
