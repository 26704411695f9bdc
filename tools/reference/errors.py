"""The table of error codes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import sokovan
from sokovan.domain.errors import SokovanError

INTRODUCTION = """\
# Error codes

Every error that Sokovan raises on purpose says what happened, to what, and what to do next, and carries a code that
never changes once released. Programs key on the code; the sentence may be improved.

| Code | Error | Meaning | Hint |
|---|---|---|---|
"""


def page() -> str:
    """The page of all error codes, parents before children."""
    load_everything()
    rows = [
        f"| `{error.code}` | {depth * '→ '}{error.__name__} | {_meaning(error)} | {error.hint} |\n"
        for depth, error in _tree(SokovanError)
    ]
    return INTRODUCTION + "".join(rows)


def load_everything() -> None:
    """Import every module of the package: an error that nobody imported yet belongs on the page too."""
    for module in walk_packages(sokovan.__path__, "sokovan."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def _tree(error: type[SokovanError], depth: int = 0) -> Iterator[tuple[int, type[SokovanError]]]:
    yield depth, error
    for child in sorted(error.__subclasses__(), key=lambda child: child.__name__):
        # Errors of plugins and tests are none of ours.
        if child.__module__.startswith("sokovan."):
            yield from _tree(child, depth + 1)


def _meaning(error: type[SokovanError]) -> str:
    return (error.__doc__ or "").partition("\n")[0].rstrip(".")
