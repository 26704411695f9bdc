"""The command line in front of a real server with a real agent: a session from its submission to its end."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_rig import Rig, first_line, server_up


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A server with an agent on this machine."""
    with server_up(tmp_path_factory.mktemp("home")) as up:
        yield up


def test_a_run_prints_what_the_command_prints_and_ends_as_it_ends(rig: Rig) -> None:
    done = rig.sokovan("run", "--cpus", "0.1", "--", "python3", "-c", "print('hello')")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert done.stderr.splitlines()[-1].split("  ")[1].startswith("finished, exit 0")
    done = rig.sokovan("run", "--cpus", "0.1", "--", "sh", "-c", "echo oops >&2; exit 7")
    assert done.returncode == 7


def test_output_that_is_no_text_comes_through_as_it_is(rig: Rig) -> None:
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"
    assert rig.output("run", "--cpus", "0.1", "--", "python3", "-c", script) == bytes(range(256)) * 1000


def test_the_ranks_of_a_gang_stand_before_its_lines(rig: Rig) -> None:
    words = ("run", "--size", "4", "--cpus", "0.1", "--name", "gang", "--", "sh", "-c", "echo rank $SOKOVAN_RANK of 4")
    done = rig.sokovan(*words)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] rank {rank} of 4" for rank in range(4)]


def test_a_session_is_followed_through_its_life(rig: Rig) -> None:
    done = rig.sokovan("run", "-d", "--cpus", "0.1", "--name", "life", "--env", "WORD=x y", "--", "sleep", "600")
    assert (done.returncode, done.stdout, done.stderr) == (0, "life\n", "")
    assert rig.sokovan("wait", "life", "--for", "RUNNING", "--timeout", "30s").returncode == 0
    [row] = json.loads(rig.sokovan("ps", "--json", "--status", "RUNNING").stdout)
    assert (row["name"], row["kernels"][0]["status"]) == ("life", "running")
    prefix = row["id"][:-2]
    assert rig.sokovan("session", "show", prefix, "-o", "name").stdout == "life\n"
    done = rig.sokovan("exec", "life", "--", "sh", "-c", 'echo "$WORD"; exit 9')
    assert (done.returncode, done.stdout) == (9, "x y\n"), done.stderr
    done = rig.sokovan("exec", "-i", "life", "--", "tr", "a-z", "A-Z", given="carried\n")
    assert (done.returncode, done.stdout) == (0, "CARRIED\n"), done.stderr
    assert rig.sokovan("stop", "life").returncode == 0
    assert rig.sokovan("wait", "life", "--timeout", "30s").returncode == 0
    history = json.loads(rig.sokovan("session", "history", "life", "--json").stdout)
    states = [line["after"] for line in history if line["subject"] == row["id"]]
    assert (states[0], states[-1]) == ("pending", "terminated")
    assert "RUNNING" in rig.sokovan("session", "history", "life").stdout


def test_sessions_are_found_by_their_labels(rig: Rig, tmp_path: Path) -> None:
    rig.sokovan("run", "--cpus", "0.1", "-n", "first", "--label", "team=vision", "--label", "nightly=", "--", "true")
    spec = "apiVersion: sokovan/v1\nkind: Session\nname: second\nrun: 'true'\nlabels: {team: vision}\n"
    (tmp_path / "f.yaml").write_text(f"{spec}resources: {{cpu: 0.1}}\n", encoding="utf-8")
    rig.sokovan("run", "-f", str(tmp_path / "f.yaml"))
    assert rig.sokovan("ps", "-a", "-l", "team=vision", "-o", "name").stdout == "second\nfirst\n"
    assert rig.sokovan("ps", "-a", "-l", "team=vision", "-l", "nightly", "-o", "name").stdout == "first\n"
    assert rig.sokovan("ps", "-a", "-l", "team=audio", "-o", "name").stdout == ""
    assert "team=vision, nightly=" in rig.sokovan("session", "show", "first").stdout
    assert json.loads(rig.sokovan("session", "show", "second", "--json").stdout)["labels"] == {"team": "vision"}
    done = rig.sokovan("run", "--label", "team=two words", "--", "true")
    assert done.returncode != 0
    assert "labels/team" in done.stderr
    assert rig.sokovan("ps", "-l", "two words").returncode != 0


def test_logs_are_there_after_the_end(rig: Rig) -> None:
    rig.sokovan("run", "--cpus", "0.1", "--name", "talker", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo $i; done")
    assert rig.sokovan("logs", "talker").stdout == "1\n2\n3\n4\n5\n"
    assert rig.sokovan("logs", "talker", "--tail", "2", "--prefix").stdout == "[0] 4\n[0] 5\n"


def test_why_and_plan_explain_what_cannot_run(rig: Rig) -> None:
    done = rig.sokovan("plan", "--gpus", "1000", "--json", "--", "x")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (6, "NEVER_FITS")
    done = rig.sokovan("run", "--gpus", "1000", "--name", "huge", "--", "x")
    assert done.returncode == 6
    assert "[never-fits]" in done.stderr
    rig.sokovan("run", "-d", "--gpus", "1000", "--name", "huger", "--", "x")
    found = json.loads(rig.sokovan("why", "huger", "--json").stdout)
    assert found["status"] == "pending"
    assert rig.sokovan("why", "--all").returncode == 0
    assert rig.sokovan("cancel", "huger").stderr == "huger  CANCELLED\n"
    assert rig.sokovan("cancel", "huger").returncode == 5


def test_a_wait_that_times_out_takes_the_session_back(rig: Rig) -> None:
    rig.sokovan("run", "-d", "--mem", "16MiB", "--cpus", "0.1", "--name", "first", "--", "sleep", "600")
    words = ("--depends-on", "first", "--timeout", "1s", "--cpus", "0.1", "--name", "second", "--", "true")
    done = rig.sokovan("run", *words)
    assert done.returncode == 6, done.stderr
    assert json.loads(rig.sokovan("session", "show", "second", "--json").stdout)["status"] == "cancelled"
    rig.sokovan("stop", "first")


def test_ctrl_c_stops_the_session(rig: Rig) -> None:
    with rig.starts("run", "--cpus", "0.1", "--name", "broken-off", "--", "sh", "-c", "echo up; sleep 600") as process:
        assert first_line(process) == "up\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert json.loads(rig.sokovan("session", "show", "broken-off", "--json").stdout)["status"] == "terminated"


def test_a_spec_is_written_planned_and_run(rig: Rig) -> None:
    assert rig.sokovan("init", "train").returncode == 0
    assert "would start now" in rig.sokovan("plan", "-f", "train.sokovan.yaml").stdout
    done = rig.sokovan("run", "-f", "train.sokovan.yaml", "--cpus", "0.1", "--", "echo", "from the command line")
    assert (done.returncode, done.stdout) == (0, "from the command line\n"), done.stderr
    text = (rig.home / "train.sokovan.yaml").read_text(encoding="utf-8").replace("python ", "python3 ")
    done = rig.sokovan("run", "--name", "piped", "-f", "-", given=text)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_a_shell_is_a_session_that_ends_with_it(rig: Rig) -> None:
    done = rig.sokovan("shell", "--name", "den", "--cpus", "0.1", given="echo in here; exit 4\n")
    assert (done.returncode, done.stdout) == (4, "in here\n"), done.stderr
    assert rig.sokovan("wait", "den", "--timeout", "30s").returncode == 0


def test_what_administrators_change_is_there_afterwards(rig: Rig) -> None:
    assert rig.sokovan("queue", "set", "research", "--weight", "3", "--max", "gpu=8").returncode == 0
    assert json.loads(rig.sokovan("queue", "show", "research", "--json").stdout)["weight"] == 3
    assert rig.sokovan("quota", "set", "group:default", "cpu=1000").returncode == 0
    assert json.loads(rig.sokovan("group", "show", "default", "--json").stdout)["policy"] == "group.default"
    assert rig.sokovan("user", "set", "ada", "--group", "default").returncode == 0
    token = json.loads(rig.sokovan("key", "add", "ada", "--json").stdout)["token"]
    url = json.loads(rig.sokovan("context", "ls", "--json").stdout)[0]["url"]
    (rig.home / "ada.key").write_text(token, encoding="utf-8")
    assert rig.sokovan("context", "add", "ada", url, "--token-file", "ada.key", "--keep-current").returncode == 0
    assert json.loads(rig.sokovan("whoami", "--context", "ada", "--json").stdout)["user"] == "ada"
    assert rig.sokovan("queue", "rm", "research", "--yes", "--context", "ada").returncode == 5
    assert rig.sokovan("queue", "rm", "research", "--yes").returncode == 0
    [agent] = json.loads(rig.sokovan("agent", "ls", "--json").stdout)
    assert rig.sokovan("agent", "drain", agent["id"]).returncode == 0
    assert json.loads(rig.sokovan("agent", "show", agent["id"], "--json").stdout)["status"] == "draining"
    assert rig.sokovan("agent", "undrain", agent["id"]).returncode == 0


def test_a_second_up_says_so_and_the_data_are_those_of_the_user(rig: Rig) -> None:
    done = rig.sokovan("up")
    assert done.returncode == 0
    assert "nothing to do" in done.stderr
    assert (Path(rig.environment["XDG_CONFIG_HOME"]) / "sokovan" / "config.toml").stat().st_mode & 0o777 == 0o600
