"""Completion candidates for the word at the cursor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sokovan.cli.command_table import COMMANDS, first_words
from sokovan.cli.completion.candidates import FILES, candidates
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.views import session


def words(*typed: str) -> list[str] | None:
    """The candidates for the last word; None for files."""
    found = candidates(list(typed))
    return None if found is None else [word for word, _ in found]


@pytest.fixture
def known(server: CannedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CannedServer:
    """A server with a few objects, and a long budget."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sokovan.cli.completion.name_lookup.BUDGET_S", 30.0)
    server.says("GET sessions", {"items": [session(name="ddp"), session(name="dig")]})
    server.says("GET queues", {"items": [{"name": "research"}]})
    return server


def test_the_first_word_is_a_command() -> None:
    assert words("") == first_words()
    assert words() == first_words()
    assert words("lo") == ["logs", "login"]
    assert words("--v") == ["--version"]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_a_candidate(command: str) -> None:
    assert command.rsplit(maxsplit=1)[-1] in (words(*command.split()) or ())


@pytest.mark.slow
def test_options_are_those_of_the_command() -> None:
    assert words("logs", "--f") == ["--follow"]
    assert words("session", "show", "--wa") == ["--watch"]
    assert words("ps", "--f") == []


@pytest.mark.parametrize("typed", [("run", "--type", "b"), ("run", "--type", "=", "b")])
def test_the_value_of_an_option_is_one_of_its_choices(typed: tuple[str, ...]) -> None:
    assert words(*typed) == ["batch"]


def test_a_value_may_stand_in_the_same_word() -> None:
    assert words("run", "--type=b") == ["--type=batch"]
    assert words("run", "--type", "=") == ["interactive", "batch", "inference", "system"]
    assert words("ps", "-o", "js") == ["json", "jsonl"]


@pytest.mark.usefixtures("known")
def test_names_stand_where_the_command_takes_them() -> None:
    assert words("logs", "d") == ["ddp", "dig"]
    assert words("logs", "ddp", "") == []
    assert words("logs", "-f", "--tail", "5", "di") == ["dig"]
    assert words("logs", "--tail", "") == []
    assert words("run", "--queue", "") == ["research"]
    assert words("run", "--queue=") == ["--queue=research"]
    assert words("exec", "ddp", "") == []


@pytest.mark.usefixtures("known")
def test_arguments_already_given_are_not_offered_again() -> None:
    assert words("stop", "ddp", "") == ["dig"]


def test_server_options_on_the_line_are_used(known: CannedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOKOVAN_URL", "http://127.0.0.1:1")
    assert words("logs", "--url", known.url, "") == ["ddp", "dig"]
    assert words("logs", f"--url={known.url}", "") == ["ddp", "dig"]


@pytest.mark.parametrize(
    "typed", [("simulate", ""), ("run", "--", "ls", ""), ("run", "--file", "x"), ("run", "-f", ""), ("run", "pyth")]
)
def test_files_are_left_to_the_shell(typed: tuple[str, ...], sokovan: Sokovan) -> None:
    assert words(*typed) is None
    assert sokovan("__complete", *typed) == (FILES, "", "")


@pytest.mark.parametrize(
    "typed", [("nonsense", ""), ("session", "nonsense", ""), ("ps", ""), ("session", "a", "b", "")]
)
def test_an_unknown_command_has_no_candidates(typed: tuple[str, ...]) -> None:
    assert words(*typed) == []


def test_a_candidate_and_its_description_are_one_line(sokovan: Sokovan) -> None:
    assert sokovan("__complete", "logs", "--fol") == (0, "--follow\tFollow the output until the session ends.\n", "")
    assert sokovan("__complete", "completion", "z") == (0, "zsh\n", "")


def test_errors_print_nothing(sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SOKOVAN_TOKEN", raising=False)
    assert sokovan("__complete", "logs", "") == (0, "", "")
    (tmp_path / "sokovan").mkdir()
    (tmp_path / "sokovan" / "config.toml").write_text("not toml", encoding="utf-8")
    assert sokovan("__complete", "logs", "") == (0, "", "")


def test_the_help_does_not_mention_it(sokovan: Sokovan) -> None:
    assert "__complete" not in sokovan("--help")[1]
    assert "__complete" not in sokovan("help")[1]


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["'lo'", "'session', ''", "'ps', '-o'"])
def test_static_candidates_load_no_client(typed: str) -> None:
    statement = f"import sys; sys.argv = ['sokovan', '__complete', {typed}]; from sokovan.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded & {"httpx2", "asyncio", "yaml", "numpy"} == set()
    assert ("sokovan.cli.app" in loaded) == ("-o" in typed)
