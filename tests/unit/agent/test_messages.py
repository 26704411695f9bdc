"""Events say what happened, and nothing of what follows."""

from __future__ import annotations

from typing import get_args

import pytest

from sokovan.agent import messages
from sokovan.agent.messages import Event, Observed, StartFinished
from tests.unit.agent.stories import key


def test_every_event_is_a_value() -> None:
    assert StartFinished(key()) == StartFinished(key())
    with pytest.raises(AttributeError):
        StartFinished(key()).problem = "other"  # type: ignore[misc]  # the point of the test


def test_an_observation_claims_nothing_by_default() -> None:
    assert Observed((), begun=3, now_ms=0).claims == {}


def test_the_list_of_events_is_complete() -> None:
    described = {
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and kind.__module__ == messages.__name__ and kind.__name__ != "RuntimeClaim"
    }

    assert set(get_args(Event)) == described
