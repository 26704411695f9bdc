"""The `sokovan` command as a process: what it loads, what it prints, how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sokovan import __version__
from sokovan.cli import main as command
from sokovan.cli.app import app

HEAVY = ("alembic", "numpy", "sqlalchemy", "yaml")
HELP = "sys.argv = ['sokovan', {words}]; from sokovan.cli.main import main; main()"


def python(*words: str, given: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A Python process that was given a text on standard input."""
    return subprocess.run([sys.executable, *words], input=given, capture_output=True, text=True, check=False, cwd=cwd)


def heavy_modules_after(statement: str) -> list[str]:
    """Which of the heavy modules are loaded after a statement."""
    done = python("-c", f"import sys; {statement}; print(*sorted(sys.modules))")
    assert done.returncode == 0, done.stderr
    return [name for name in done.stdout.splitlines()[-1].split() if name in HEAVY]


@pytest.mark.parametrize(
    "statement", ["import sokovan", "import sokovan.cli.main", *(HELP.format(words=f"'{w}'") for w in ("-h", "--help"))]
)
def test_asking_what_it_can_do_loads_nothing_heavy(statement: str) -> None:
    assert heavy_modules_after(statement) == []


def test_the_parser_of_the_commands_loads_nothing_heavy_either() -> None:
    assert heavy_modules_after("import sokovan.cli.app") == []


def test_running_a_scenario_loads_no_database() -> None:
    assert heavy_modules_after("import sokovan.cli.simulate") == ["numpy", "yaml"]


@pytest.mark.parametrize("command", ["audit", "db"])
def test_looking_into_the_store_does_load_one(command: str) -> None:
    assert {"alembic", "sqlalchemy"} <= set(heavy_modules_after(f"import sokovan.cli.{command}"))


def test_a_module_is_run_like_the_command(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("scenario: from a file\n", encoding="utf-8")
    done = python("-m", "sokovan", "simulate", "f.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "1 ok, 0 failed\n")
    assert "from a file" in done.stdout


@pytest.mark.parametrize(("expect", "status"), [("{placed: {}}", 0), ("{placed_count: 3}", 1), ("{luck: good}", 2)])
def test_a_scenario_is_read_from_standard_input_and_the_exit_status_tells(expect: str, status: int) -> None:
    done = python("-m", "sokovan", "simulate", "--json", "-", given=f"scenario: s\nexpect: {expect}\n")
    assert done.returncode == status
    if status == 2:
        assert json.loads(done.stderr)["message"].startswith("/dev/stdin:2: scenario 's': expect.luck: ")
    else:
        assert json.loads(done.stdout)[0]["file"] == "/dev/stdin"


def answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """What the command prints, in this process."""
    monkeypatch.setattr(sys, "argv", ["sokovan", *words])
    command.main()
    return capsys.readouterr()


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",)])
def test_the_overview_names_every_command_of_the_parser(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = answers(monkeypatch, capsys, *words)
    assert err == ""
    names = [name for name in app if not name.startswith("-")]
    assert sorted(command.COMMANDS) == sorted(names)
    assert all(f"  {name} " in out for name in names)


def test_the_version_is_printed_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert answers(monkeypatch, capsys, "--version") == (f"{__version__}\n", "")


def test_the_summaries_of_the_overview_are_those_of_the_commands() -> None:
    for name, summary in command.COMMANDS.items():
        assert summary.split(":", maxsplit=1)[0] in (app[name].help or "")


def test_a_command_is_handed_to_the_parser_with_its_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sokovan", "simulate"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "name at least one file" in capsys.readouterr().err
