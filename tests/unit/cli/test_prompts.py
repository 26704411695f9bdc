"""Asking before something is lost."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from sokovan.cli.prompts import Declined, ask, confirm, is_interactive
from sokovan.sdk.errors import InvalidSetting


class Terminal(io.StringIO):
    """A terminal at which somebody has typed."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Terminal]:
    """Somebody who types a text; gives the terminal on which he is asked."""

    def sit_down(text: str) -> Terminal:
        screen = Terminal()
        monkeypatch.setattr(sys, "stdin", Terminal(text))
        monkeypatch.setattr(sys, "stderr", screen)
        return screen

    return sit_down


def test_nobody_is_asked_who_said_yes() -> None:
    confirm("remove all", yes=True)


def test_where_nobody_can_answer_the_flag_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert not is_interactive()
    with pytest.raises(InvalidSetting, match="--yes"):
        confirm("remove all", yes=False)


@pytest.mark.parametrize("text", ["y\n", "YES\n", " y \n"])
def test_a_yes_goes_on(types: Callable[[str], Terminal], text: str) -> None:
    types(text)
    confirm("remove all", yes=False)


@pytest.mark.parametrize("text", ["\n", "n\n", "yeah\n", ""])
def test_anything_else_does_not(types: Callable[[str], Terminal], text: str) -> None:
    types(text)
    with pytest.raises(Declined):
        confirm("remove all", yes=False)


def test_the_question_is_talk(types: Callable[[str], Terminal]) -> None:
    screen = types("C\n")
    assert ask("what? ") == "c"
    assert screen.getvalue() == "what? "
