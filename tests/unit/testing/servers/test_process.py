"""A server is a child process that leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
from itertools import chain
from pathlib import Path
from threading import Event

import pytest

from sokovan.testing.servers import (
    EtcdServer,
    PostgresServer,
    ServerProcess,
    ServerProcessFailed,
    ValkeyServer,
    server_or_environment,
)
from sokovan.testing.servers.process import LOOPBACK, free_port, wheel_folder

pytestmark = pytest.mark.server

STARTER = """
import sys
from sokovan.testing.servers import ValkeyServer
server = ValkeyServer()
server.start()
print(server.port, server.folder, flush=True)
sys.stdin.read()
"""


def test_a_server_answers_as_soon_as_start_returns() -> None:
    with ValkeyServer() as server:
        assert server.running
        assert server.answers()
        assert str(server.port) in server.url


def test_a_closed_server_leaves_no_process_and_no_folder() -> None:
    with ValkeyServer() as server:
        folder = server.folder
    assert not server.running
    assert not folder.exists()


def test_starting_twice_starts_once() -> None:
    with ValkeyServer() as server:
        port = server.port
        server.start()
        assert server.port == port


def test_a_restart_keeps_the_port() -> None:
    with ValkeyServer() as server:
        port = server.port
        server.kill()
        assert not server.answers()
        server.restart()
        assert server.answers()
        assert server.port == port


def test_a_server_that_cannot_run_says_why() -> None:
    class Misconfigured(ValkeyServer):
        def _arguments(self) -> list[str]:
            return [*super()._arguments(), "--no-such-setting", "1"]

    server = Misconfigured()
    with pytest.raises(ServerProcessFailed, match="no-such-setting"):
        server.start()
    assert not server.running


@pytest.mark.parametrize("kind", [ValkeyServer, PostgresServer, EtcdServer])
def test_a_port_that_another_server_took_first_is_left_to_it(
    kind: type[ServerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    with kind() as first, monkeypatch.context() as patch:
        taken = chain([first.port], iter(free_port, None))
        patch.setattr("sokovan.testing.servers.process.free_port", lambda: next(taken))
        with kind() as second:
            assert second.port != first.port
            assert second.answers()
        assert first.answers()


def test_a_paused_server_stands_still_and_goes_on_afterwards() -> None:
    with ValkeyServer() as server, socket.create_connection((LOOPBACK, server.port)) as connection:
        with server.paused():
            connection.sendall(b"PING\r\n")
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(100)
        connection.settimeout(60)
        assert connection.recv(100) == b"+PONG\r\n"


def test_a_server_that_is_given_is_neither_started_nor_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ValkeyServer.environment, "valkey://elsewhere:6379/3")
    with server_or_environment(ValkeyServer) as server:
        assert server.url == "valkey://elsewhere:6379/3"
        assert server.is_given
        assert not server.running
        with pytest.raises(ServerProcessFailed, match="is external"):
            server.kill()


def test_without_a_given_server_one_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ValkeyServer.environment, raising=False)
    with server_or_environment(ValkeyServer) as server:
        assert server.answers()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_server_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        _, folder = process.stdout.readline().decode().split()
        os.kill(process.pid, signal.SIGKILL)
    left: list[Path] = []
    for _ in range(500):
        # Not by the port, which another server may use by now. The watchdog also has the folder in its arguments.
        left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if folder.encode() in _content(path)]
        if not left and not Path(folder).exists():
            break
        Event().wait(0.02)
    assert not Path(folder).exists()
    assert not left


def test_a_free_port_can_be_listened_on() -> None:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, free_port()))


def test_a_wheel_that_is_not_installed_is_named() -> None:
    with pytest.raises(ServerProcessFailed, match="no_such_wheel"):
        wheel_folder("no_such_wheel")
