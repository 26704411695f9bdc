"""Instructions are values, and a step puts records before them."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

from sokovan.agent import instructions
from sokovan.agent.instructions import AgentStep, Instruction, SendAnswer, SendHeartbeat
from sokovan.agent.kernel_table import Token
from tests.unit.agent.stories import FRESH


def test_a_step_without_consequences_only_has_holdings() -> None:
    assert AgentStep(FRESH) == AgentStep(FRESH, (), ())
    assert [field.name for field in fields(AgentStep)] == ["holdings", "records", "instructions"]


def test_an_answer_without_a_word_says_that_it_is_done() -> None:
    assert SendAnswer(Token(1, 2)).word is None
    assert SendHeartbeat() == SendHeartbeat()


def test_the_list_of_instructions_is_complete() -> None:
    described = {
        kind
        for kind in vars(instructions).values()
        if isinstance(kind, type) and kind.__module__ == instructions.__name__ and kind is not AgentStep
    }

    assert set(get_args(Instruction)) == described
