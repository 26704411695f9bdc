"""The how-to shows what really happens: its files are run, its outputs are compared."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sokovan.cli.exit_codes import OK, USAGE
from sokovan.cli.main import run

PAGE = (Path(__file__).parents[2] / "docs/howto/try-a-policy.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```yaml (\S+)\n(.*?)```", PAGE, flags=re.DOTALL))
SHOWN = re.findall(r"```console\n\$ sokovan (.+?)\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_of_the_page_prints_what_the_page_shows(command: str, output: str, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    argv = [sys.executable, "-m", "sokovan", *command.split()]
    outcome = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = "" if "--json" in command else outcome.stderr
    assert outcome.stdout + errors == output
    assert outcome.returncode == (1 if "today.yaml" in command else 0)


def test_the_page_has_three_files_and_four_commands() -> None:
    assert (sorted(FILES), len(SHOWN)) == (["drf.yaml", "limit.yaml", "today.yaml"], 4)


REFERENCE = (Path(__file__).parents[2] / "docs/reference/scenarios.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_reference_names_every_key_that_the_reader_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    known: set[str] = set()
    for text in (
        "wrong: 1",
        "agents: {a: {wrong: 1}}",
        "queues: {q: {wrong: 1}}",
        "sessions: {s: {wrong: 1}}",
        "sessions: {s: {kernels: {k: {wrong: 1}}}}",
        "limits: {user: {u: {wrong: 1}}}",
        "expect: {wrong: 1}",
    ):
        path.write_text(f"scenario: one\n{text}\n", encoding="utf-8")
        assert run(["simulate", str(path)]) == USAGE
        errors = capsys.readouterr().err
        listed = re.search(r"known here are (.*) \[", errors)
        assert listed is not None, errors
        known.update(listed.group(1).split(", "))
    assert len(known) > 50
    assert sorted(key for key in known if f"`{key}`" not in REFERENCE) == []


@pytest.mark.slow
def test_the_example_of_the_reference_holds(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", REFERENCE, flags=re.DOTALL)
    assert example is not None
    path = tmp_path / "example.yaml"
    path.write_text(example.group(1), encoding="utf-8")
    assert run(["simulate", str(path)]) == OK
