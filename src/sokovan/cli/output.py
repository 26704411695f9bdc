"""What the command line prints: data on standard output, talk on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from sokovan.domain.errors import SokovanError


def say(text: str) -> None:
    """Data, for people or programs."""
    print(text)


def talk(text: str) -> None:
    """Words about the data; never mixed into it."""
    print(text, file=sys.stderr)


def as_json(value: Any) -> str:
    """A value as JSON, with keys in the order in which they were given."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def complain(error: SokovanError, *, json_too: bool) -> None:
    """An error on standard error; as an object too where the output is for programs."""
    if json_too:
        print(json.dumps({"code": error.code, "message": error.message, "hint": error.hint}), file=sys.stderr)
    else:
        print(f"error: {error}", file=sys.stderr)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under headings, in columns that line up."""
    lines = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings) - 1)]
    padded = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip()
        for line in lines
    ]
    return "\n".join(padded)
