"""Bad input through the command line: a clear error, its exit status, and nothing stored.

The command line runs in this process, in front of a real server.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.cli.main import run
from tests.integration.cli_rig import Rig, server_up

HEAD = "apiVersion: sokovan/v1\nkind: Session\n"
LONG = "x" * 5000
HUGE = "1" + "0" * 30


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A server without an agent: nothing can start by mistake."""
    with server_up(tmp_path_factory.mktemp("home"), "--no-agent") as up:
        yield up


@pytest.fixture
def sokovan(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the user whose server is up."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.setenv(name, rig.environment[name])
    for name in ("SOKOVAN_URL", "SOKOVAN_TOKEN", "SOKOVAN_CONTEXT", "SOKOVAN_FORMAT", "SOKOVAN_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(rig.home)
    monkeypatch.setattr(sys, "stdin", io.StringIO())


# The words of `sokovan run -d`, the exit status, and what the error must say.
RUNS = [
    (["--size", "0", "--", "x"], 2, "size"),
    (["--size", "-1", "--", "x"], 2, "size"),
    (["--size", "10001", "--", "x"], 2, "10000"),
    (["--size", "four", "--", "x"], 2, "--size"),
    (["--size", "99999999999999999999", "--", "x"], 2, "size"),
    (["--size", "2", "--minimum", "3", "--", "x"], 2, "minimum"),
    (["--minimum", "-1", "--", "x"], 2, "minimum"),
    (["--name", "", "--", "x"], 2, "name"),
    (["--name", "a b", "--", "x"], 2, "name"),
    (["--name", "../up", "--", "x"], 2, "name"),
    (["--name", LONG, "--", "x"], 2, "name"),
    (["--name", "naïve", "--", "x"], 2, "name"),
    (["--cpus", "many", "--", "x"], 2, "cpu"),
    (["--cpus", "-1", "--", "x"], 2, "cpu"),
    (["--cpus", "0", "--", "x"], 2, "cpu: 0 is too little"),
    (["--mem", "0", "--", "x"], 2, "mem: 0 is too little"),
    (["--cpus", "0", "--mem", "0", "--", "x"], 2, "takes no best-effort kernels"),
    (["--cpus", "0.001", "--", "x"], 2, "at least 0.01"),
    (["--mem", "-1GiB", "--", "x"], 2, "below zero"),
    (["--gpus", "-1", "--", "x"], 2, "below zero"),
    (["--time-limit", "-5s", "--", "x"], 2, "is not a duration"),
    (["--cpus", HUGE, "--", "x"], 2, "more than"),
    (["--mem", f"{HUGE}GiB", "--", "x"], 2, "more than"),
    (["--cpus", "NaN", "--", "x"], 2, "not a number"),
    (["--cpus", "2", "--slot", "cpu=1", "--", "x"], 2, "cpu is given twice"),
    (["--gpus", "2", "--slot", "gpu=1", "--", "x"], 2, "cuda.device is given twice"),
    (["--size", HUGE, "--", "x"], 2, "10000"),
    (["--priority", HUGE, "--", "x"], 2, "priority"),
    (["--time-limit", HUGE, "--", "x"], 2, "time_limit"),
    (["--label", "a.b=ü", "--", "x"], 2, "labels/a.b"),
    (["--cpus", "0.0001", "--", "x"], 2, "cpu"),
    (["--cpus", "1e9", "--", "x"], 2, "cpu"),
    (["--mem", "4 GiB", "--", "x"], 2, "mem"),
    (["--mem", "4XB", "--", "x"], 2, "mem"),
    (["--mem", "99999999999999999999", "--", "x"], 2, "mem"),
    (["--gpus", "H100:1", "--", "x"], 2, "cuda.device"),
    (["--slot", "CPU=1", "--", "x"], 2, "CPU"),
    (["--slot", "cpu", "--", "x"], 2, "NAME=VALUE"),
    (["--slot", "=1", "--", "x"], 2, "NAME=VALUE"),
    (["--env", "A", "--", "x"], 2, "NAME=VALUE"),
    (["--env", "A=1", "--env", "A=2", "--", "x"], 2, "twice"),
    (["--env", "1A=1", "--", "x"], 2, "environment"),
    (["--env", "SOKOVAN_RANK=1", "--", "x"], 2, "SOKOVAN_RANK"),
    (["--env", f"A={'x' * 2_000_000}", "--", "x"], 2, "body"),
    (["--mount", "/a", "--", "x"], 2, "mount"),
    (["--mount", "/a:/b:wr", "--", "x"], 2, "mount"),
    (["--mount", "../a:/b", "--", "x"], 2, "without . or .."),
    (["--mount", "/a/../etc:/data", "--", "x"], 2, "without . or .."),
    (["--mount", "/etc:/data", "--", "x"], 2, "mounts"),
    (["--mount", "/data:/etc", "--", "x"], 2, "mounts"),
    (["--mount", "/data:/x/../../etc", "--", "x"], 2, "without . or .."),
    (["--port", "8888", "--", "x"], 2, "is not a service port"),
    (["--port", "a=80", "--", "x"], 2, "1024 or more"),
    (["--image", "no-such-image", "--", "x"], 2, "image"),
    (["--image", "venv:../x", "--", "x"], 2, "image"),
    (["--image", "", "--", "x"], 2, "image"),
    (["--topology", "hard:", "--", "x"], 2, "topology"),
    (["--topology", "near", "--", "x"], 2, "topology"),
    (["--queue", "no-such-queue", "--", "x"], 2, "queue"),
    (["--scaling-group", "no-such-pool", "--", "x"], 2, "scaling_group"),
    (["--group", "no-such-group", "--", "x"], 2, "group"),
    (["--priority", "99999999999", "--", "x"], 2, "priority"),
    (["--priority", "high", "--", "x"], 2, "--priority"),
    (["--depends-on", "nobody", "--", "x"], 2, "depends_on"),
    (["--starts-at", "tomorrow", "--", "x"], 2, "starts_at"),
    (["--starts-at", "2999-01-01T00:00:00Z", "--", "x"], 2, "starts_at"),
    (["--time-limit", "4 hours", "--", "x"], 2, "time_limit"),
    (["--time-limit", "0", "--", "x"], 2, "time_limit"),
    (["--type", "bach", "--", "x"], 2, "batch"),
    (["--type", "batch"], 2, "no command"),
    (["--on-agent-lost", "cry", "--", "x"], 2, "requeue"),
    (["--colour", "--", "x"], 2, "--colour"),
    (["--", "x" * 300_000], 2, "command"),
    (["-f", "no-such.yaml"], 2, "no-such.yaml"),
    (["-f", "."], 2, "cannot read"),
]

# A spec, and what the error must say, its place among it.
SPECS = [
    ("", "the file is empty"),
    ("- a\n", "spec.yaml:1:1:"),
    ("a: [\n", "spec.yaml:2:1: this is not YAML"),
    ("a: 1\na: 2\n", "spec.yaml:2:1: the key 'a' is given twice"),
    ("kind: Session\n", "needs the key 'apiVersion'"),
    (f"{HEAD}tiemLimit: 4h\n", "spec.yaml:3:1: a session has no key 'tiemLimit'; did you mean 'timeLimit'?"),
    (f"{HEAD}size: [1]\n", "spec.yaml:3:7: expected a whole number, not a list"),
    (f"{HEAD}size: 1.5\n", "spec.yaml:3:7:"),
    (f"{HEAD}preemptible: perhaps\n", "spec.yaml:3:14: expected true or false"),
    (f"{HEAD}resources: {{cpu: true}}\n", "spec.yaml:3:18: expected an amount"),
    (f"{HEAD}environment: {{A: [1]}}\n", "spec.yaml:3:18: expected a string"),
    (f"{HEAD}mounts: [/a]\n", "spec.yaml:3:10: '/a' is not a mount"),
    (f"{HEAD}run: echo 'x\n", "spec.yaml:3:6:"),
    (f"{HEAD}run: a\ncommand: [b]\n", "spec.yaml:4:1: run and command"),
    (f"{HEAD}groups: [{{size: 1}}]\n", "spec.yaml:3:10: a kernel group needs the key 'name'"),
    ("apiVersion: sokovan/v2\nkind: Session\n", "spec.yaml:1:13:"),
    ("apiVersion: sokovan/v1\nkind: Deploy\n", "spec.yaml:2:7:"),
    ("&a [*a]\n", "spec.yaml:1:"),
    ("[" * 100, "nested more than"),
    ("# " + "x" * 2_000_000, "is larger than"),
    (f"{HEAD}run: x\nsize: 0\n", "size"),
    (f"{HEAD}run: x\nmounts: [/etc/shadow:/data]\n", "mounts"),
    (f"{HEAD}run: x\ngroups: [{{name: a}}, {{name: a}}]\n", "groups"),
]

# Other command lines, their exit status, and what the error must say.
OTHERS = [
    (["session", "show", "nobody"], 3, "[not-found]"),
    (["session", "show", ".."], 2, "[invalid-name]"),
    (["session", "show", ""], 2, "[invalid-name]"),
    (["session", "show", "a/../../users"], 2, "[invalid-name]"),
    (["session", "show", LONG], 2, "[invalid-name]"),
    (["session", "history", "a?b#c"], 3, "[not-found]"),
    (["session", "dance"], 2, "dance"),
    (["why", "nobody"], 3, "[not-found]"),
    (["logs", "nobody"], 3, "[not-found]"),
    (["logs", "nobody", "--tail", "-1"], 2, "--tail"),
    (["exec", "nobody", "--", "ls"], 125, "[not-found]"),
    (["stop", "nobody"], 3, "[not-found]"),
    (["stop"], 2, "no session given"),
    (["wait", "nobody", "--for", "RUNNING"], 3, "[not-found]"),
    (["wait", "nobody", "--for", "WALKING"], 2, "is not a state"),
    (["wait", "nobody", "--timeout", "soon"], 2, "is not a duration"),
    (["cancel", "nobody"], 3, "[not-found]"),
    (["ps", "--status", "WALKING"], 2, "is not a state"),
    (["ps", "--user", "a b"], 2, "user"),
    (["ps", "-o", "xml"], 2, "is not an output format"),
    (["ps", "--columns", "colour"], 2, "unknown column"),
    (["ps", "--limit", "0"], 2, "--limit"),
    (["ps", "--context", "nowhere"], 2, "nowhere"),
    (["ps", "--url", "ftp://x"], 2, "not the URL"),
    (["ps", "--url", "http://127.0.0.1:1"], 4, "[not-logged-in]"),
    (["agent", "show", "nobody"], 3, "[not-found]"),
    (["agent", "drain", "nobody"], 3, "[not-found]"),
    (["agent", "declare-gone", "nobody"], 2, "--yes"),
    (["queue", "set", "a b"], 2, "name"),
    (["queue", "set", "q", "--weight", "0"], 2, "weight"),
    (["queue", "set", "q", "--parent", "nobody"], 2, "nobody"),
    (["queue", "set", "q", "--max", "gpu=-1"], 2, "cuda.device"),
    (["domain", "rm", "default", "--yes"], 5, "default"),
    (["queue", "rm", "nobody", "--yes"], 3, "[not-found]"),
    (["quota", "set", "team:x", "gpu=1"], 2, "is not an owner"),
    (["quota", "set", "q", "gpu"], 2, "NAME=VALUE"),
    (["queue", "set", "q", "--weight", HUGE], 2, "1000000 or less"),
    (["queue", "set", "q", "--max", f"cpu={HUGE}"], 2, "more than"),
    (["queue", "set", "naïve"], 2, "is not a name"),
    (["ps", "--queue", "naïve"], 2, "query/queue: is not a name: use 1 to 128 letters"),
    (["ps", "--label", "a.b=ü"], 2, "label.a.b"),
    (["agent", "drain", "a", "b"], 2, "unexpected argument 'b'"),
    (["agent", "drain", "naïve"], 3, "[not-found]"),
    (["scaling-group", "set", "s", "--option", "validators=NaN"], 2, "validators"),
    (["scaling-group", "set", "s", "--pending-timeout", "-5m"], 2, "is not a duration"),
    (["scaling-group", "set", "s", "--mem-per-cpu", "-1GiB"], 2, "below zero"),
    (["user", "set", "naïve"], 2, "is not a name for a user"),
    (["user", "set", "u", "--domain", ""], 2, "--domain is empty"),
    (["quota", "set", "q", "gpus=1"], 2, "did you mean cuda.device?"),
    (["quota", "set", "q", "--pending-slot", "cpus=1"], 2, "did you mean cpu?"),
    (["queue", "set", "q", "--max", "gpus=1"], 2, "did you mean cuda.device?"),
    (["queue", "set", "q", "--max", "gpu=1", "--max", "cuda.device=2"], 2, "twice"),
    (["image", "set", "i", "--least", "memry=1"], 2, "did you mean mem?"),
    (["quota", "set", "q", "--sessions", "-1"], 2, "sessions_max"),
    (["scaling-group", "set", "s", "--scheduler", "dice"], 2, "dice"),
    (["image", "set", "a b"], 2, "name"),
    (["user", "set", "u", "--role", "king"], 2, "Choose from"),
    (["user", "set", "u", "--group", "no-such-group"], 3, "no-such-group"),
    (["user", "rm", "admin", "--yes"], 5, "admin"),
    (["group", "set", "g", "--domain", "no-such-domain"], 3, "no-such-domain"),
    (["key", "add", "nobody"], 3, "[not-found]"),
    (["key", "rm", "AK-nobody", "--yes"], 3, "[not-found]"),
    (["context", "use", "nowhere"], 2, "there is no context"),
    (["context", "add", "a b", "http://x"], 2, "hint:"),
    (["plan", "--size", "0", "--", "x"], 2, "size"),
    (["init", "../x"], 2, "is not a valid session name"),
    (["schema", "-k", "Nothing"], 2, "Choose from"),
    (["completion", "tcsh"], 2, "Choose from"),
    (["help", "colours"], 2, "the topics are"),
    (["up", "--port", "-1"], 2, "--port"),
    (["up", "--fake", "x"], 2, "--fake"),
    (["agent", "run", "http://x"], 2, "ws://"),
    (["audit", "--store", "mysql://x"], 2, "mysql"),
    (["dance"], 2, "unknown command 'dance'"),
    (["--dance"], 2, "--dance"),
]


def refused(words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line must end like this, and say so."""
    found = run(words)
    out, err = capsys.readouterr()
    shown = f"{words!r:.200} ended with {found}: {err:.2000}"
    assert found == status, shown
    assert out == "", shown
    assert err.startswith("error: "), shown
    assert "\n  hint: " in err, shown
    assert err.rstrip().endswith("]"), shown
    assert message in err, shown
    assert "Traceback" not in err, shown
    assert len(err) < 6000, shown


@pytest.mark.usefixtures("sokovan")
@pytest.mark.parametrize(("words", "status", "message"), RUNS, ids=lambda one: str(one)[:60])
def test_a_session_that_cannot_be_is_refused(
    words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(["run", "-d", *words], status, message, capsys)


@pytest.mark.usefixtures("sokovan")
@pytest.mark.parametrize(("text", "message"), SPECS, ids=lambda one: str(one)[:60])
def test_a_spec_that_cannot_be_is_refused_with_its_place(
    rig: Rig, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (rig.home / "spec.yaml").write_text(text, encoding="utf-8")
    refused(["run", "-d", "-f", "spec.yaml"], 2, message, capsys)


@pytest.mark.usefixtures("sokovan")
@pytest.mark.parametrize(("words", "status", "message"), OTHERS, ids=lambda one: str(one)[:60])
def test_everything_else_that_cannot_be_is_refused(
    words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(words, status, message, capsys)


@pytest.mark.usefixtures("sokovan")
def test_with_json_an_error_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["session", "show", "nobody", "--json"]) == 3
    out, err = capsys.readouterr()
    problem = json.loads(err)
    assert (out, problem["code"], problem["status"]) == ("", "not-found", 404)
    assert problem["hint"]
    assert run(["ps", "--dance", "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["code"] == "usage"


@pytest.mark.usefixtures("sokovan")
def test_a_server_that_is_not_there_and_a_key_that_is_not_known(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = json.loads(rig.sokovan("context", "ls", "--json").stdout)[0]["url"]
    monkeypatch.setenv("SOKOVAN_TOKEN", "sk-AK.nonsense")
    monkeypatch.setenv("SOKOVAN_URL", url)
    refused(["ps"], 4, "[unauthenticated]", capsys)
    refused(["run", "--", "x"], 125, "[unauthenticated]", capsys)
    monkeypatch.setenv("SOKOVAN_URL", "http://127.0.0.1:1")
    refused(["ps"], 7, "[server-unreachable]", capsys)
    refused(["run", "-d", "--", "x"], 7, "[server-unreachable]", capsys)


@pytest.mark.usefixtures("sokovan")
def test_nothing_was_stored(rig: Rig, tmp_path: Path) -> None:
    assert rig.sokovan("ps", "--all", "--json").stdout == "[]\n"
    assert json.loads(rig.sokovan("queue", "ls", "--json").stdout)[0]["name"] == "default"
    assert rig.sokovan("quota", "ls", "-o", "name").stdout == ""
    assert rig.sokovan("user", "ls", "-o", "name").stdout == "admin\n"
    assert list(tmp_path.iterdir()) == []
