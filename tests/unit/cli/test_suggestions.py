"""Which command is suggested for a word that is none."""

from __future__ import annotations

import pytest

from sokovan.cli.command_table import COMMANDS, NOUNS, first_words
from sokovan.cli.suggestions import _OTHER_TOOLS, suggested_command


def _verbs(noun: str) -> list[str]:
    return [name.removeprefix(f"{noun} ") for name in COMMANDS if name.startswith(f"{noun} ")]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("list", "ps"),
        ("squeue", "ps"),
        ("sbatch", "run"),
        ("scancel", "stop"),
        ("nodes", "agent"),
        ("sesion", "session"),
        ("xyzzy", ""),
        ("deployment delete", "rm"),
        ("deployment list", "ls"),
        ("deployment describe", "show"),
        ("session kill", "stop"),
        ("token remove", "revoke"),
        ("agent delete", "remove"),
        ("agent cordon", "drain"),
        ("queue create", "set"),
        ("queue sett", "set"),
    ],
)
def test_the_words_of_other_tools_and_typing_errors_lead_to_a_command(words: str, meant: str) -> None:
    first, _, second = words.partition(" ")
    assert suggested_command(second or first, _verbs(first) if second else first_words()) == meant


def test_each_word_of_another_tool_leads_to_a_command_somewhere() -> None:
    everywhere = [first_words(), *(_verbs(noun) for noun in NOUNS)]
    led = {word for word in _OTHER_TOOLS for known in everywhere if set(_OTHER_TOOLS[word]) & set(known)}
    assert led == set(_OTHER_TOOLS)
