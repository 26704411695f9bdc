"""Asking before something is lost, and never hanging where nobody can answer."""

from __future__ import annotations

import sys

from sokovan.cli.output import print_status
from sokovan.sdk.errors import ClientProblem, InvalidSetting


class Declined(ClientProblem):
    """Somebody was asked and did not say yes."""

    code = "declined"
    hint = "nothing was changed; answer y, or say --yes beforehand"


def confirm(question: str, *, yes: bool) -> None:
    """Go on if yes was said, or is said now. Raises Declined, InvalidSetting."""
    if yes:
        return
    if not is_interactive():
        raise InvalidSetting(f"{question}? nobody is there to ask", hint="say --yes if this is meant")
    if ask(f"{question}? [y/N] ") not in {"y", "yes"}:
        raise Declined("not confirmed")


def ask(prompt: str) -> str:
    """A line from the terminal, in lower case; the prompt is talk, not data."""
    print_status(prompt, end="")
    answer = sys.stdin.readline()
    if not answer:
        print_status("")
    return answer.strip().lower()


def is_interactive() -> bool:
    """Whether a person sits at both ends."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
