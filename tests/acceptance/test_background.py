"""A server in the background: `up --detach`, `status`, `down`, and the systemd unit."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.adapters.process.shim.processes import is_alive
from tests.acceptance.embedded import Embedded, until

PROGRAM = '#!/bin/sh\necho "$@" >> {log}\nexit {code}\n'


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Embedded]:
    """A user without a server; one that the test leaves behind is ended."""
    machine = Embedded(tmp_path / "user")
    machine.folder.mkdir()
    try:
        yield machine
    finally:
        machine.cli("down")
        machine.quit()


def with_systemctl(machine: Embedded, code: int = 0) -> tuple[dict[str, str], Path]:
    """An environment whose systemctl records its arguments."""
    programs, log = machine.folder / "programs", machine.folder / "systemctl.log"
    programs.mkdir()
    (programs / "systemctl").write_text(PROGRAM.format(log=log, code=code))
    (programs / "systemctl").chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}"}, log


def test_a_detached_server_is_started_used_reported_and_stopped(machine: Embedded) -> None:
    assert machine.cli("status").returncode == 3
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        started = machine.cli("up", "--port", port, "--detach", "--fake", "3x2", "--no-agent")
    assert started.returncode == 0, started.stderr
    assert f"port {port} was in use" in started.stderr
    about = machine.about
    assert all(
        str(each) in started.stdout for each in (about["url"], about["gateway"], about["pid"], machine.data / "logs")
    )

    again = machine.cli("up", "--detach")
    assert again.returncode == 0
    assert f"already running at {about['url']}" in again.stderr
    assert machine.about == about

    until(lambda: machine.cli_json("status")["agents"] == {"ALIVE": 3}, what="the agents are alive")
    machine.api("POST", "/sessions", json={"command": ["true"], "resources": {"cuda.device": 1}})
    found = machine.cli_json("status")
    assert (found["running"], found["pid"]) == (True, about["pid"])
    assert (found["url"], found["gateway"]) == (about["url"], about["gateway"])
    assert found["version"] == about["version"]
    assert found["uptime_s"] >= 0
    assert sum(found["sessions"].values()) <= 1
    shown = machine.cli("status")
    assert shown.returncode == 0
    assert "3 ALIVE" in shown.stdout

    stopped = machine.cli("down")
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped" in stopped.stderr
    assert not is_alive(about["pid"], about["start"])
    assert machine.cli("down").returncode == 0
    gone = machine.cli("status", "--json")
    assert gone.returncode == 3
    assert json.loads(gone.stdout)["running"] is False


def test_a_server_that_does_not_start_is_an_error_with_the_end_of_its_output(machine: Embedded) -> None:
    machine.data.mkdir(parents=True, mode=0o700)
    (machine.data / "state.db").write_bytes(b"this is not a database" * 100)
    failed = machine.cli("up", "--port", "0", "--detach")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "store-broken" in failed.stderr
    assert "did not start" in failed.stderr
    assert machine.cli("status").returncode == 3


def test_down_never_signals_a_process_that_reused_the_pid(machine: Embedded) -> None:
    machine.start("--no-agent", "--fake", "1x1")
    about = dict(machine.about)
    other = subprocess.Popen(["/bin/sleep", "600"])
    try:
        (machine.data / "up.json").write_text(json.dumps({**about, "pid": other.pid}))
        done = machine.cli("down")
        assert other.poll() is None
        assert "not running" in done.stderr
        (machine.data / "up.json").write_text(json.dumps(about))
        # A server that does not react is not killed: the user decides.
        os.kill(machine.pid, signal.SIGSTOP)
        waited = machine.cli("down", "--timeout", "1")
        assert waited.returncode == 1
        assert "still" in waited.stderr
    finally:
        other.kill()
        other.wait()
        os.kill(machine.pid, signal.SIGCONT)


def test_the_service_unit_is_written_enabled_and_removed(machine: Embedded) -> None:
    environment, log = with_systemctl(machine)
    unit = machine.folder / "config" / "systemd" / "user" / "sokovan.service"
    environment["SOKOVAN_LOG__FILES_KEPT"] = "4"
    done = machine.cli("up", "--install-service", "--fake", "2x8", "--data", "my data", **environment)
    assert done.returncode == 0, done.stderr
    assert str(unit) in done.stderr
    text = unit.read_text(encoding="utf-8")
    assert f'"--data" "{machine.folder}/my data"' in text
    assert '"--fake" "2x8"' in text
    assert 'Environment="SOKOVAN_LOG__FILES_KEPT=4"' in text
    assert "KillMode=process" in text
    assert log.read_text(encoding="utf-8").splitlines() == [
        "--user daemon-reload",
        "--user enable --now sokovan.service",
    ]
    removed = machine.cli("up", "--uninstall-service", **environment)
    assert removed.returncode == 0, removed.stderr
    assert not unit.exists()
    assert "--user disable --now sokovan.service" in log.read_text(encoding="utf-8")
    assert "no service" in machine.cli("up", "--uninstall-service", **environment).stderr


@pytest.mark.parametrize("words", [("--install-service", "--detach"), ("--install-service", "--uninstall-service")])
def test_one_way_of_running_excludes_the_others(machine: Embedded, words: tuple[str, ...]) -> None:
    done = machine.cli("up", *words)
    assert done.returncode == 2
    assert "hint:" in done.stderr


def test_without_a_working_systemd_the_command_says_so_and_leaves_no_unit(machine: Embedded) -> None:
    environment, _ = with_systemctl(machine, code=1)
    done = machine.cli("up", "--install-service", **environment)
    assert done.returncode == 1
    assert "sokovan up --detach" in done.stderr
    assert not (machine.folder / "config" / "systemd" / "user" / "sokovan.service").exists()
