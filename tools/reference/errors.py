"""The table of error codes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import sokovan
from sokovan.domain.errors import SokovanError
from sokovan.sdk.errors import ClientProblem

INTRODUCTION = """\
# Error codes

Every error that Sokovan raises on purpose says what happened, to what, and what to do next, and has a code that
never changes once released. Programs should rely on the code; the message may change.

| Code | Error | Meaning | Hint |
|---|---|---|---|
"""


OF_CLIENTS = """
## Errors of the client

These come from the SDK and the command line when there is no response from a server. Otherwise the code is the
server's.

| Code | Error | Meaning | Hint |
|---|---|---|---|
"""

OF_COMMANDS = """
The command line adds: `usage` (the command line is invalid), `internal` (a defect; please report it) and
`unwritable-output` (standard output is closed).
"""


def page() -> str:
    """The page of all error codes, parents before children."""
    load_everything()
    return "".join((INTRODUCTION, *_rows(SokovanError), OF_CLIENTS, *_rows(ClientProblem), OF_COMMANDS))


def _rows(base: type[Any]) -> list[str]:
    return [
        f"| `{error.code}` | {depth * '→ '}{error.__name__} | {_meaning(error)} | {error.hint} |\n"
        for depth, error in _tree(base)
    ]


def load_everything() -> None:
    """Import every module of the package, so that every error class is known."""
    for module in walk_packages(sokovan.__path__, "sokovan."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def _tree(error: type[Any], depth: int = 0) -> Iterator[tuple[int, type[Any]]]:
    yield depth, error
    for child in sorted(error.__subclasses__(), key=lambda child: child.__name__):
        # Errors of plugins and tests do not belong on the page.
        if child.__module__.startswith("sokovan."):
            yield from _tree(child, depth + 1)


def _meaning(error: type[Any]) -> str:
    return (error.__doc__ or "").partition("\n")[0].rstrip(".")
