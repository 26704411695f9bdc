"""Asking before something is lost."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from sokovan.cli.prompts import Declined, ask, confirm, is_interactive
from sokovan.sdk.errors import InvalidSetting


class Terminal(io.StringIO):
    """A terminal with input."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Terminal]:
    """Types a text and returns the terminal of the prompt."""

    def sit_down(text: str) -> Terminal:
        screen = Terminal()
        monkeypatch.setattr(sys, "stdin", Terminal(text))
        monkeypatch.setattr(sys, "stderr", screen)
        return screen

    return sit_down


def test_yes_skips_the_prompt() -> None:
    confirm("remove all", yes=True)


def test_without_a_terminal_the_error_names_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert not is_interactive()
    with pytest.raises(InvalidSetting, match="--yes"):
        confirm("remove all", yes=False)


@pytest.mark.parametrize("text", ["y\n", "YES\n", " y \n"])
def test_a_confirmation_continues(types: Callable[[str], Terminal], text: str) -> None:
    types(text)
    confirm("remove all", yes=False)


@pytest.mark.parametrize("text", ["\n", "n\n", "yeah\n", ""])
def test_anything_else_does_not(types: Callable[[str], Terminal], text: str) -> None:
    types(text)
    with pytest.raises(Declined):
        confirm("remove all", yes=False)


def test_the_prompt_goes_to_standard_error(types: Callable[[str], Terminal]) -> None:
    screen = types("C\n")
    assert ask("what? ") == "c"
    assert screen.getvalue() == "what? "
