"""Prints data to standard output, and status and errors to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol


class ErrorReport(Protocol):
    """An error with a code, a message and a hint, from any layer."""

    @property
    def code(self) -> str:
        """The stable error code."""

    @property
    def message(self) -> str:
        """The failure and the object it concerns."""

    @property
    def hint(self) -> str:
        """The next step for the user."""


def print_data(text: str) -> None:
    """Print data on standard output."""
    print(text)


def flush_output() -> None:
    """Flush standard output, so that a pipe receives it before a long wait."""
    sys.stdout.flush()


def print_bytes(content: bytes) -> None:
    """Write bytes to standard output at once; kernel output need not be text."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def print_status(text: str, *, end: str = "\n") -> None:
    """Print a status message on standard error."""
    print(text, end=end, file=sys.stderr, flush=True)


def as_json(value: Any) -> str:
    """Format a value as indented JSON; keys keep their order."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def print_error(error: ErrorReport, *, as_object: bool) -> None:
    """Print an error on standard error: as one JSON object, or as text."""
    if as_object:
        print(json.dumps(error_object(error), ensure_ascii=False), file=sys.stderr)
    else:
        print(f"error: {error.message}\n  hint: {error.hint} [{error.code}]", file=sys.stderr)


def error_object(error: ErrorReport) -> Mapping[str, Any]:
    """An error as a JSON object, with the server's problem details if there are any."""
    fields: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    problem = getattr(error, "problem", None)
    if problem is not None and hasattr(problem, "request_id"):
        fields |= {"status": problem.status, "request_id": problem.request_id}
        fields["problems"] = [{"where": one.where, "problem": one.problem} for one in problem.problems]
    return fields


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows under headings, in aligned columns."""
    lines = [list(headings), *([plain_cell(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings) - 1)]
    padded = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip()
        for line in lines
    ]
    return "\n".join(padded)


def plain_cell(text: str) -> str:
    """A text on one line, with unprintable characters replaced."""
    if "\n" in text:
        text = " ".join(text.split())
    return text if text.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in text)
