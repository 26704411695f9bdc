"""Confirmation prompts; without a terminal they fail instead of blocking."""

from __future__ import annotations

import sys

from sokovan.cli.output import print_status
from sokovan.sdk.errors import ClientProblem, InvalidSetting


class Declined(ClientProblem):
    """The user did not confirm."""

    code = "declined"
    hint = "nothing was changed; answer y, or pass --yes"


def confirm(question: str, *, yes: bool) -> None:
    """Return if --yes was given or the user confirms. Raises Declined, InvalidSetting."""
    if yes:
        return
    if not is_interactive():
        raise InvalidSetting(f"{question}? cannot prompt: no terminal", hint="pass --yes to confirm")
    if ask(f"{question}? [y/N] ") not in {"y", "yes"}:
        raise Declined("not confirmed")


def ask(prompt: str) -> str:
    """Read a line from the terminal, in lower case; the prompt goes to standard error."""
    print_status(prompt, end="")
    answer = sys.stdin.readline()
    if not answer:
        print_status("")
    return answer.strip().lower()


def is_interactive() -> bool:
    """Whether standard input and standard error are a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
