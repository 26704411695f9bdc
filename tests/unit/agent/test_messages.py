"""Events say what happened, and nothing of what follows."""

from __future__ import annotations

from typing import get_args

import pytest

from sokovan.agent import messages
from sokovan.agent.kernel_table import Token
from sokovan.agent.messages import (
    AgentStep,
    Event,
    Instruction,
    Observed,
    RuntimeClaim,
    SendAnswer,
    SendHeartbeat,
    StartFinished,
)
from tests.unit.agent.supervisor_harness import FRESH, key


def test_every_event_is_a_value() -> None:
    assert StartFinished(key()) == StartFinished(key())
    with pytest.raises(AttributeError):
        StartFinished(key()).problem = "other"  # type: ignore[misc]  # the point of the test


def test_an_observation_claims_nothing_by_default() -> None:
    assert Observed((), begun=3, now_ms=0).claims == {}


def _declared_messages() -> set[type]:
    kinds = {kind for kind in vars(messages).values() if isinstance(kind, type)}
    return {kind for kind in kinds if kind.__module__ == messages.__name__} - {RuntimeClaim, AgentStep}


def test_events_and_instructions_list_every_message() -> None:
    assert {*get_args(Event), *get_args(Instruction)} == _declared_messages()


def test_a_step_without_consequences_has_only_a_table() -> None:
    assert AgentStep(FRESH) == AgentStep(FRESH, (), ())
    assert list(AgentStep.__struct_fields__) == ["table", "records", "instructions"]


def test_an_answer_has_no_result_by_default() -> None:
    assert SendAnswer(Token(1, 2)).result is None
    assert SendHeartbeat() == SendHeartbeat()
