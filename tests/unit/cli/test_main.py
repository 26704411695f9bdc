"""The `sokovan` command as a process: what it loads, what it prints, how it ends."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sokovan import __version__
from sokovan.cli import main as command
from sokovan.cli.command_table import NOUNS, first_words
from sokovan.cli.main import main, wants_json
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.views import SESSION

HEAVY = ("alembic", "asyncio", "httpx2", "msgspec", "numpy", "rich", "sqlalchemy", "websockets", "yaml")
OF_LIFECYCLE = (
    "sokovan.cli.commands.options", "sokovan.cli.commands.sessions", "sokovan.cli.commands.sessions.lifecycle",
    "sokovan.cli.commands.sessions.session_tables",
)  # fmt: skip
HELP = "sys.argv = ['sokovan', {words}]; from sokovan.cli.main import main; main()"


def python(*words: str, given: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A Python process that was given a text on standard input."""
    return subprocess.run([sys.executable, *words], input=given, capture_output=True, text=True, check=False, cwd=cwd)


def heavy_modules_after(statement: str) -> list[str]:
    """Which of the heavy modules are loaded after a statement."""
    done = python("-c", f"import sys; {statement}; print(*sorted(sys.modules))")
    assert done.returncode == 0, done.stderr
    return [name for name in done.stdout.splitlines()[-1].split() if name in HEAVY]


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import sokovan",
        "import sokovan.cli.main",
        *(HELP.format(words=words) for words in ("'-h'", "'--help'", "'--version'", "'session', '--help'", "'queue'")),
    ],
)
def test_help_screens_load_nothing_heavy(statement: str) -> None:
    assert heavy_modules_after(statement) == []


@pytest.mark.slow
def test_a_command_line_loads_no_command_but_its_own() -> None:
    statement = "from sokovan.cli.app import parsed; parsed(['session', 'show', 'a']); print(*sys.modules)"
    done = python("-c", f"import sys; {statement}")
    loaded = [name for name in done.stdout.split() if name.startswith("sokovan.cli.commands.")]
    assert "sokovan.cli.commands.sessions.lifecycle" in loaded
    assert set(loaded) - set(OF_LIFECYCLE) == set()


# What a client must not load to list sessions or to run a command: it would be most of the time that the user waits.
FOREIGN = (
    "asyncio", "attr", "cyclopts", "difflib", "email", "encodings.idna", "h11", "hashlib", "http.client", "httpcore2",
    "httpx2", "importlib.metadata", "msgspec", "numpy", "rich", "sokovan.cli.arguments.command_help",
    "sokovan.domain", "sokovan.sdk.core.deployment_calls", "sokovan.wire.api.deployments",
    "sokovan.wire.api.execution", "sokovan.wire.api.explanations", "sokovan.wire.api.files", "sokovan.wire.api.files",
    "sokovan.wire.api.fleet", "sokovan.wire.api.tenancy", "sqlalchemy", "ssl", "subprocess", "truststore",
    "typing_extensions", "urllib.request", "websockets", "yaml",
)  # fmt: skip
# The modules of ours that a listing loads, some more than now; each is a two-hundredth of what the user waits.
OWN_MAX = 75


def modules_of(*words: str) -> list[str]:
    """The modules that a command has loaded at its end."""
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from sokovan.cli.main import main; main()"
    done = python("-c", code, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


@pytest.mark.slow
@pytest.mark.parametrize("output", ["table", "json"])
def test_listing_sessions_loads_only_what_it_needs(server: CannedServer, output: str) -> None:
    server.says("GET sessions", {"items": [SESSION]})
    server.says("GET arrays", {"items": []})
    loaded = modules_of("ps", "-o", output)
    assert [name for name in FOREIGN if name in loaded] == []
    assert "sokovan.sdk.http.sync" in loaded
    assert len([name for name in loaded if name.partition(".")[0] == "sokovan"]) <= OWN_MAX


@pytest.mark.slow
def test_stopping_a_session_loads_only_what_it_needs(server: CannedServer) -> None:
    server.says("DELETE sessions/a", SESSION)
    loaded = modules_of("stop", "a")
    assert [name for name in FOREIGN if name in loaded] == []


@pytest.mark.slow
def test_submitting_a_session_loads_only_what_it_needs(server: CannedServer) -> None:
    server.says("POST sessions", SESSION, status=201)
    loaded = modules_of("run", "-d", "--", "true")
    assert [name for name in FOREIGN if name in loaded] == []


@pytest.mark.slow
def test_running_a_scenario_loads_no_database() -> None:
    assert heavy_modules_after("import sokovan.cli.local.simulate") == ["numpy", "yaml"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["audit", "db"])
def test_looking_into_the_store_does_load_one(command: str) -> None:
    assert {"alembic", "sqlalchemy"} <= set(heavy_modules_after(f"import sokovan.cli.local.{command}"))


@pytest.mark.slow
def test_a_module_is_run_like_the_command(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("scenario: from a file\n", encoding="utf-8")
    done = python("-m", "sokovan", "simulate", "f.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "1 ok, 0 failed\n")
    assert "from a file" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("expect", "status"), [("{placed: {}}", 0), ("{placed_count: 3}", 1), ("{luck: good}", 2)])
def test_a_scenario_is_read_from_standard_input(expect: str, status: int) -> None:
    done = python("-m", "sokovan", "simulate", "--json", "-", given=f"scenario: s\nexpect: {expect}\n")
    assert done.returncode == status
    if status == 2:
        assert json.loads(done.stderr)["message"].startswith("/dev/stdin:2: scenario 's': expect.luck: ")
    else:
        assert json.loads(done.stdout)[0]["file"] == "/dev/stdin"


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",)])
def test_the_overview_names_every_command(words: tuple[str, ...], sokovan: Sokovan) -> None:
    status, out, err = sokovan(*words)
    assert (status, err) == (0, "")
    assert all(f"\n  {word} " in out for word in first_words())


def test_a_noun_alone_lists_its_commands(sokovan: Sokovan) -> None:
    for noun in NOUNS:
        status, out, _ = sokovan(noun)
        assert status == 0
        assert out.startswith(f"Usage: sokovan {noun} COMMAND")


def test_the_version_is_printed_alone(sokovan: Sokovan) -> None:
    assert sokovan("--version") == (0, f"{__version__}\n", "")


def test_a_command_is_run_with_its_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sokovan", "simulate"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "no file given" in capsys.readouterr().err


def test_an_unknown_command_is_reported_with_a_suggestion(sokovan: Sokovan) -> None:
    status, out, err = sokovan("sesion")
    assert (status, out) == (2, "")
    assert err.splitlines() == [
        "error: unknown command 'sesion'; did you mean 'session'?",
        "  hint: see sokovan --help for all commands [usage]",
    ]


@pytest.mark.slow
def test_arguments_of_the_users_command_are_left_alone(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions", {"id": 7})
    sokovan("run", "-d", "--", "cat", "-", "--json")
    assert server.body("POST sessions")["command"] == ["cat", "-", "--json"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["ps", "--json"], True),
        (["ps", "-o", "json"], True),
        (["ps", "--output=json"], True),
        (["ps", "-o", "table"], False),
        (["run", "--", "x", "--json"], False),
    ],
)
def test_errors_are_json_if_the_output_is(words: list[str], *, wanted: bool) -> None:
    assert wants_json(words) is wanted


def test_the_environment_may_select_json_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOKOVAN_FORMAT", "json")
    assert wants_json(["ps"])
    assert not wants_json(["ps", "-o", "table"])


def test_a_bug_is_one_line_unless_debugging_is_on(sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_words: list[str]) -> int:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("sokovan.cli.app.run_command", broken)
    monkeypatch.delenv("SOKOVAN_DEBUG", raising=False)
    status, _, err = sokovan("ps")
    assert status == 1
    assert err.startswith("error: ZeroDivisionError: by zero\n")
    assert "Traceback" not in err
    for value, wanted in {"1": True, "1,api": True, "api": False, "0": False}.items():
        monkeypatch.setenv("SOKOVAN_DEBUG", value)
        assert ("Traceback" in sokovan("ps")[2]) is wanted


def test_ctrl_c_ends_with_130(sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("sokovan.cli.app.run_command", interrupted)
    assert sokovan("ps") == (130, "", "interrupted\n")


def test_a_full_disk_is_reported() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        words = [sys.executable, "-m", "sokovan", "--help"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "cannot write to standard output" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ps"], 1),
        (["run", "--", "make"], 125),
        (["exec", "name", "--", "make", "-d"], 125),
        (["shell"], 125),
        (["run", "-d", "--", "make"], 1),
    ],
)
@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EPIPE])
def test_output_that_cannot_be_written_is_no_failure_of_the_users_command(
    monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, problem: int
) -> None:
    def unwritable(_words: list[str]) -> int:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr("sokovan.cli.main.run", unwritable)
    monkeypatch.setattr("sokovan.cli.main._discard_output", lambda: None)
    monkeypatch.setattr(sys, "argv", ["sokovan", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_no_failure(closed: str) -> None:
    words = ["sh", "-c", f'exec "$0" -m sokovan --version {closed}', sys.executable]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_argument_that_is_no_text_is_reported(server: CannedServer, sokovan: Sokovan) -> None:
    status, _, said = sokovan("why", "\udcff")
    assert (status, "a value is not UTF-8 text: '\\udcff'" in said) == (2, True)
    assert server.lines == []


def test_the_toy_engine_loads_no_parser_and_is_not_in_the_help(sokovan: Sokovan) -> None:
    assert not {"__toy-engine", "__proxy"} & set(sokovan("--help")[1].split())
    script = "from sokovan.cli.main import run; import sys; run(['__toy-engine', '--exit-code', '0']); "
    heavy = "print([name for name in ('sokovan.cli.app', 'httpx2', 'msgspec', 'numpy', 'yaml') if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script + heavy], check=True, capture_output=True, text=True)
    assert loaded.stdout == "[]\n"
