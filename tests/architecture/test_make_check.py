"""`make check` runs every checker, tidy included, and CI runs `make check`."""

import re

import pytest

from tests.architecture.tiny_tree import REPOSITORY

CHECKERS = ("ruff format --check", "ruff check", "mypy", "lint-imports", "python -m tools.tidy")


def recipe(target: str) -> list[str]:
    """The commands that make runs for `target`, continued lines joined."""
    makefile = (REPOSITORY / "Makefile").read_text("utf-8").replace("\\\n", " ")
    [found] = re.findall(rf"^{target}:.*\n((?:\t.*\n?)+)", makefile, flags=re.MULTILINE)
    return [line.strip().removeprefix("@") for line in found.splitlines()]


@pytest.mark.parametrize("checker", CHECKERS)
def test_make_check_runs_each_checker(checker: str) -> None:
    assert [line for line in recipe("check") if line.removeprefix("$(BIN)/").startswith(checker)]


def test_make_check_ignores_no_failure() -> None:
    # make goes on after a line that starts with "-", and a shell after "||" or "; true".
    assert not [line for line in recipe("check") if line.startswith("-") or "||" in line or ";" in line]


def test_make_test_runs_pytest_over_everything() -> None:
    assert recipe("test") == ["$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal"]


def test_ci_runs_make_check_and_make_test_and_stops_at_the_first_failure() -> None:
    lines = (REPOSITORY / ".ci" / "run").read_text("utf-8").splitlines()
    commands = [line for line in lines if not line.startswith("#")]
    assert commands[0] == "set -euo pipefail"
    assert commands[-2:] == ["make check", "make test"]
