"""Finds the lines of the keys in a TOML text, which the parser does not keep."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping

from sokovan.ports.config import setting_path

# After a value over more lines than this no line is known: each of its lines is parsed with all before it.
_STATEMENT_LINES_MAX = 1_000
# The content of the last line of a value over several lines.
_ENDS = ("]", "}", '"""', "'''")


def key_lines(text: str) -> dict[str, int]:
    r"""The line of each key and table of a valid TOML text, by path.

    >>> key_lines("[a]\nb = 1\n\n[c.d]\n")
    {'a': 1, 'a.b': 2, 'c': 4, 'c.d': 4}
    """
    found: dict[str, int] = {}
    table: tuple[str, ...] = ()
    for line, statement, values in _statements(text):
        if statement.lstrip().startswith("["):
            paths = list(_paths((), values))
            table = paths[-1] if paths else ()
        else:
            paths = list(_paths(table, values))
        for path in paths:
            found.setdefault(setting_path(*path), line)
    return found


def _statements(text: str) -> Iterator[tuple[int, str, Mapping[str, object]]]:
    """Each key or header with its first line: a statement ends where it can be parsed."""
    begun, first = "", 1
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        may_end = not begun or any(end in line for end in _ENDS)
        first = number if not begun else first
        begun = f"{begun}\n{line}" if begun else line
        values = _parsed(begun) if may_end else None
        if values is None:
            if number - first >= _STATEMENT_LINES_MAX:
                return
            continue
        if values:
            yield first, begun, values
        begun = ""


def _parsed(text: str) -> Mapping[str, object] | None:
    """The values of a text, or None if it is not complete."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _paths(above: tuple[str, ...], values: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, Mapping):
            yield from _paths((*above, name), value)
