"""The locks pin every package by version and hash, and name no package host."""

import re
import tomllib

import pytest

from tests.architecture.tiny_tree import REPOSITORY

DEV, RUN = ((REPOSITORY / f"requirements/{name}.txt").read_text("utf-8") for name in ("dev", "run"))
each_lock = pytest.mark.parametrize("lock", [DEV, RUN], ids=["dev", "run"])
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


def locked(lock: str) -> dict[str, list[str]]:
    """The hashes of every locked requirement, by its line."""
    entries: dict[str, list[str]] = {}
    current = ""
    for line in lock.splitlines():
        if re.match(r"[a-z0-9]", line):
            current = line.rstrip(" \\")
            entries[current] = []
        elif "--hash=" in line:
            entries[current].append(line.strip(" \\"))
    return entries


@each_lock
def test_every_locked_requirement_has_one_version_and_hashes(lock: str) -> None:
    entries = locked(lock)
    assert len(entries) > 20
    assert [line for line in entries if not re.match(r"[a-z0-9._-]+==[^\s;]+", line)] == []
    assert [line for line, hashes in entries.items() if not hashes] == []


@each_lock
def test_a_lock_names_no_package_host(lock: str) -> None:
    assert re.search(r"https?:|index-url|find-links|trusted-host|file:", lock) is None


def test_a_server_runs_with_the_versions_that_were_tested_and_without_the_tools() -> None:
    run, dev = locked(RUN), locked(DEV)
    assert {line.partition(" ;")[0] for line in run} <= {line.partition(" ;")[0] for line in dev}
    tools = {"pytest", "mypy", "ruff", "hypothesis", "uv", "schemathesis"}
    assert not {re.split(r"==", line)[0] for line in run} & tools


def test_everything_that_a_server_asks_for_is_locked_to_run() -> None:
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["editable"]]
    names = {re.split(r"[<>=\[ ]", requirement)[0].lower() for requirement in asked}
    assert names - {re.split(r"==", line)[0] for line in locked(RUN)} == set()


def test_everything_that_the_project_asks_for_is_locked() -> None:
    asked = [*PROJECT["dependencies"], *(d for extra in PROJECT["optional-dependencies"].values() for d in extra)]
    names = {re.split(r"[<>=\[ ]", requirement)[0].lower() for requirement in asked} - {"sokovan"}
    pinned = {re.split(r"==", line)[0] for line in locked(DEV)}
    assert names - pinned == set()


def test_every_dependency_below_version_one_is_capped_at_its_minor_version() -> None:
    asked = [*PROJECT["dependencies"], *(d for extra in PROJECT["optional-dependencies"].values() for d in extra)]
    young = [requirement for requirement in asked if re.search(r">=0\.", requirement)]
    assert young
    assert [requirement for requirement in young if not re.search(r"<0\.\d+$", requirement)] == []


def test_every_dependency_has_an_upper_bound() -> None:
    asked = [*PROJECT["dependencies"], *(d for extra in PROJECT["optional-dependencies"].values() for d in extra)]
    assert [r for r in asked if not r.startswith("sokovan[") and "<" not in r] == []
