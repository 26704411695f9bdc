"""The life of a rollout: it completes, or is rolled back from anywhere."""

from __future__ import annotations

import pytest

from sokovan.domain.lifecycle.rollout import ROLLOUT, RolloutStatus, RolloutTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from tests.unit.domain.lifecycle.arrows import arrows, drawn, limits

TABLE = drawn("""
    PLANNING -> PROGRESSING
    PROGRESSING -> PROGRESSING
    PROGRESSING -> AWAITING_PROMOTION
    PROGRESSING -> PROMOTING
    PROGRESSING -> COMPLETED
    AWAITING_PROMOTION -> PROMOTING
    PROMOTING -> COMPLETED
    PLANNING -> ROLLING_BACK
    PROGRESSING -> ROLLING_BACK
    AWAITING_PROMOTION -> ROLLING_BACK
    PROMOTING -> ROLLING_BACK
    ROLLING_BACK -> ROLLED_BACK
""")
UNDER_WAY = [
    RolloutStatus.PLANNING,
    RolloutStatus.PROGRESSING,
    RolloutStatus.AWAITING_PROMOTION,
    RolloutStatus.PROMOTING,
]


def test_the_transitions_are_those_of_the_table() -> None:
    assert arrows(ROLLOUT) == TABLE


@pytest.mark.parametrize("state", UNDER_WAY)
def test_a_rollout_can_be_aborted_until_its_end(state: RolloutStatus) -> None:
    assert ROLLOUT.after(state, RolloutTrigger.ABORTED, by=Cause.CONTROLLER) is RolloutStatus.ROLLING_BACK


def test_waiting_for_a_promotion_has_no_deadline() -> None:
    assert limits(ROLLOUT) == {}
