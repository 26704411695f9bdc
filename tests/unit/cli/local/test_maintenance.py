"""Commands for operators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.canned_server import Sokovan

SCENARIO = "scenario: s\nagents: {n1: {slots: {cpu: 1}}}\nsessions: {a: {kernels: {k: {slots: {cpu: 1}}}}}\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A scenario without expectations."""
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return str(path)


def test_a_scenario_file_is_run(sokovan: Sokovan, file: str) -> None:
    status, out, err = sokovan("simulate", file)
    assert (status, err) == (0, "1 ok, 0 failed\n")
    assert out.splitlines()[1].split() == ["ok", "1", "0", "s"]


def test_an_unmet_expectation_is_the_exit_status_1(sokovan: Sokovan, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(f"{SCENARIO}expect: {{placed_count: 7}}\n", encoding="utf-8")
    assert sokovan("simulate", str(tmp_path / "f.yaml"))[0] == 1


@pytest.mark.slow
def test_flags_may_stand_before_and_after_the_files(sokovan: Sokovan, file: str) -> None:
    for words in (("--json", "--explain", file), (file, "--explain", "--json"), ("--json", file, "--explain")):
        status, out, _ = sokovan("simulate", *words)
        assert status == 0
        assert json.loads(out)[0]["verdicts"][0]["code"] == "PLACED"


@pytest.mark.slow
def test_snapshots_are_saved_and_replayed(sokovan: Sokovan, file: str, tmp_path: Path) -> None:
    assert sokovan("simulate", file, "--save", str(tmp_path / "saved"))[0] == 0
    status, out, _ = sokovan("simulate", "--snapshot", str(tmp_path / "saved" / "001-s.json"))
    assert status == 0
    assert "1 placements, 0 reservations" in out


def test_no_file_is_a_usage_error_with_a_hint(sokovan: Sokovan) -> None:
    status, out, err = sokovan("simulate")
    assert (status, out) == (2, "")
    assert err.startswith("error: no file given\n  hint: see sokovan simulate --help")


def test_a_missing_file_is_a_usage_error(sokovan: Sokovan) -> None:
    status, out, err = sokovan("simulate", "no-such-file.yaml")
    assert (status, out) == (2, "")
    assert "cannot read no-such-file.yaml" in err


@pytest.mark.parametrize(
    "words", [("simulate", "--colour"), ("simulate", "--save"), ("simulate", "f.yaml", "--json=perhaps"), ("dance",)]
)
def test_unknown_options_are_a_usage_error(sokovan: Sokovan, words: tuple[str, ...]) -> None:
    status, out, err = sokovan(*words)
    assert (status, out) == (2, "")
    assert err


def test_the_help_of_a_command_names_its_options_and_its_exit_statuses(sokovan: Sokovan) -> None:
    status, out, _ = sokovan("simulate", "--help")
    assert status == 0
    for word in ("--json", "--explain", "--snapshot", "--save", "Exit codes", "For example"):
        assert word in out
