"""Simulates commands: how long one runs, and its exit code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

WORK_S = 5.0
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish"})

_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)", re.ASCII)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_ENDLESS = frozenset({"infinity", "inf"})
_FAILED = 1


class KernelScript(NamedTuple):
    """How long a command runs (None: until it is stopped), and its exit code."""

    lasts_s: float | None
    exit_code: int = 0


def script_of(command: Sequence[str], *, work_s: float = WORK_S) -> KernelScript:
    """Interprets `sleep`, `exit`, `true`, `false`, `echo` and shell scripts of them.

    Any other command takes `work_s` and succeeds.

    >>> script_of(["sleep", "3"])
    KernelScript(lasts_s=3.0, exit_code=0)
    >>> script_of(["sh", "-c", "echo hello; sleep 2; exit 3"])
    KernelScript(lasts_s=2.0, exit_code=3)
    >>> script_of(["bash"]).lasts_s is None
    True
    """
    program, *arguments = command or ("",)
    name = program.rpartition("/")[2]
    if not name or (name in SHELLS and not arguments):
        return KernelScript(None)
    if name in SHELLS and len(arguments) > 1 and arguments[0] == "-c":
        return _script(arguments[1], work_s)
    return _simple(name, arguments, work_s)


def _simple(name: str, arguments: Sequence[str], work_s: float) -> KernelScript:
    match name:
        case "sleep":
            return _sleep(arguments)
        case "exit":
            return KernelScript(0.0, int(arguments[0]) & 0xFF if arguments and arguments[0].isdigit() else 0)
        case "true" | "echo" | ":":
            return KernelScript(0.0)
        case "false":
            return KernelScript(0.0, _FAILED)
    return KernelScript(work_s)


def _sleep(arguments: Sequence[str]) -> KernelScript:
    if any(argument in _ENDLESS for argument in arguments):
        return KernelScript(None)
    spans = [_SPAN.fullmatch(argument) for argument in arguments]
    if not spans or None in spans:
        return KernelScript(0.0, _FAILED)
    return KernelScript(sum(float(span[1]) * _UNITS[span[2]] for span in spans if span is not None))


def _script(text: str, work_s: float) -> KernelScript:
    """A shell script of simple commands, run in sequence."""
    total_s, exit_code = 0.0, 0
    for words in _statements(text):
        name, *arguments = words
        step = _simple(name.rpartition("/")[2], arguments, work_s)
        if step.lasts_s is None:
            return step
        total_s, exit_code = total_s + step.lasts_s, step.exit_code
        if name == "exit":
            break
    return KernelScript(total_s, exit_code)


def _statements(text: str) -> Iterator[list[str]]:
    for statement in re.split(r"[;\n]|&&", text):
        try:
            words = shlex.split(statement)
        except ValueError:  # unbalanced quotes: treated as other work
            words = ["work"]
        if words and words[0] == "exec":
            words = words[1:]
        if words:
            yield words
