"""What the command line prints: data on standard output, talk on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol


class ErrorReport(Protocol):
    """An error that was raised on purpose, by whichever part of the system."""

    @property
    def code(self) -> str:
        """A code that never changes."""

    @property
    def message(self) -> str:
        """What happened, to what."""

    @property
    def hint(self) -> str:
        """What to do next."""


def print_data(text: str) -> None:
    """Data, for people or programs."""
    print(text)


def flush_output() -> None:
    """Let those who read a pipe have what was said so far: the next may take long."""
    sys.stdout.flush()


def print_bytes(content: bytes) -> None:
    """Data as it is, at once: the output of a kernel need not be text."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def print_status(text: str, *, end: str = "\n") -> None:
    """Words about the data; never mixed into it."""
    print(text, end=end, file=sys.stderr, flush=True)


def as_json(value: Any) -> str:
    """A value as JSON, with keys in the order in which they were given."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def print_error(error: ErrorReport, *, json_too: bool) -> None:
    """An error on standard error; as an object too where the output is for programs."""
    if json_too:
        print(json.dumps(problem_object(error), ensure_ascii=False), file=sys.stderr)
    else:
        print(f"error: {error.message}\n  hint: {error.hint} [{error.code}]", file=sys.stderr)


def problem_object(error: ErrorReport) -> Mapping[str, Any]:
    """An error for programs; what the server said of it is added as it is."""
    told: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    problem = getattr(error, "problem", None)
    if problem is not None and hasattr(problem, "request_id"):
        told |= {"status": problem.status, "request_id": problem.request_id}
        told["problems"] = [{"where": one.where, "problem": one.problem} for one in problem.problems]
    return told


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under headings, in columns that line up."""
    lines = [list(headings), *([plain_cell(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings) - 1)]
    padded = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip()
        for line in lines
    ]
    return "\n".join(padded)


def plain_cell(text: str) -> str:
    """A text that keeps to its line: what others wrote may hold anything."""
    if "\n" in text:
        text = " ".join(text.split())
    return text if text.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in text)
