"""Lets each worker begin the collection of tests at another folder, and mixes the modules.

Pytest rewrites the assertions of a test module once and keeps the result beside the module. In a fresh clone all
workers would rewrite the same modules at the same time; so each begins elsewhere and finds what the others have kept.

Each worker gets a contiguous part of all tests. Those that wait for servers are in few folders: in the order of paths
one worker had them all, and the others had finished what keeps a processor busy when they took over some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# Folders that are collected folder by folder: together they hold nearly all modules.
DIVIDED = (TESTS, TESTS / "unit")


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    given = [config.invocation_params.dir / argument for argument in config.args]
    if worker is None or not all(path.is_dir() for path in given):
        return
    number = int(worker["workerid"].removeprefix("gw"))
    config.args = [str(path) for path in rotated(parts(given), number, worker["workercount"])]
    config.pluginmanager.register(SameOrder())


class SameOrder:
    """Brings the tests into one order, which every worker must have, with the folders mixed."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort by a digest of the module; the tests of a module keep their order."""
        items.sort(key=lambda item: mixed(item.path))


@cache
def mixed(path: Path) -> tuple[bytes, Path]:
    """The place of a module among the others: the same in every worker and in every clone."""
    return sha256(path.relative_to(TESTS.parent).as_posix().encode()).digest(), path


def parts(given: Iterable[Path]) -> list[Path]:
    """The folders and modules to collect, sorted."""
    found: set[Path] = set()
    left = [path.resolve() for path in given]
    while left:
        path = left.pop()
        if path in DIVIDED:
            left += path.iterdir()
        elif _modules(path):
            found.add(path)
    return sorted(found)


def rotated(paths: Sequence[Path], number: int, count: int) -> list[Path]:
    """Paths in order from the one where part `number` of `count` equal parts begins, and around."""
    modules = [_modules(path) for path in paths]
    before = [sum(modules[:place]) for place in range(len(paths))]
    start = next((place for place, seen in enumerate(before) if seen * count >= sum(modules) * number), 0)
    return [*paths[start:], *paths[:start]]


def _modules(path: Path) -> int:
    """The number of test modules in a folder; 1 for a module itself."""
    return sum(1 for _ in path.rglob("test_*.py")) if path.is_dir() else int(path.match("test_*.py"))
