"""A server as a child process: start, stop, kill and restart."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import ClassVar, Self, TypedDict, TypeVar

from sokovan.domain.errors import SokovanError

LOOPBACK = "127.0.0.1"
PAUSE_S = 0.02
ANSWER_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
# Another process may bind the port before the server does.
START_ATTEMPTS = 5
# Remains of a killed server (backends, shared memory) may block a restart for some seconds.
RESTART_ATTEMPTS = 300
LOG_TAIL = 2000

# Ends the server and removes its folder if the parent dies: the pipe on standard input closes with it.
_WATCHDOG = """
import contextlib, os, shutil, signal, sys
sys.stdin.buffer.read()
with contextlib.suppress(ProcessLookupError):
    os.kill(int(sys.argv[1]), signal.SIGKILL)
shutil.rmtree(sys.argv[2], ignore_errors=True)
"""


class ServerProcessFailed(SokovanError):
    """A server for tests failed."""

    code = "test-server-failed"
    hint = "see the end of its log above, or name a running server in SOKOVAN_TEST_..._URL"


class ServerProcess(ABC):
    """A server on loopback with its data in a temporary folder."""

    environment: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    # The folder in which its own is created; None for the usual one of temporary files.
    parent: Path | None = None

    def __init__(self, *, given_url: str = "") -> None:
        self.port = 0
        self._given_url = given_url
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL for clients."""

    @abstractmethod
    def _arguments(self) -> Sequence[str]:
        """The program and its arguments."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether this server, and not another process on its port, responds."""

    def _prepare(self) -> None:
        """Prepare the first start; by default, create the folder."""
        self.folder.mkdir(exist_ok=True)

    def _choose_ports(self) -> None:
        """Choose the port to listen on."""
        self.port = free_port()

    @property
    def _account(self) -> str | None:
        """The user to run as; None for the current one."""
        return None

    @property
    def _variables(self) -> Mapping[str, str]:
        """The server's environment."""
        return {"PATH": os.defpath, "LC_ALL": "C"}

    @property
    def is_given(self) -> bool:
        """Whether the server is external, so that it may not be killed."""
        return bool(self._given_url)

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id; None for an external server."""
        return self._process.pid if self._process is not None else None

    @property
    def folder(self) -> Path:
        """The temporary folder with data and log."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sokovan-server-", dir=self.parent))
        return self._folder

    def start(self) -> None:
        """Start on a free port, and on the same port when restarted."""
        if self.is_given or self.running:
            return
        if self.port:
            self._start_within(RESTART_ATTEMPTS)
            return
        try:
            self._prepare()
            self._start_within(START_ATTEMPTS, moving=True)
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Stop it gracefully; its data stays for the next start."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """Kill it like a power cut; its data stays for the next start."""
        if self.is_given:
            raise ServerProcessFailed(f"{type(self).__name__} is external and may not be killed")
        self._end(signal.SIGKILL)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Suspend it: connections stay open, without responses."""
        if self._process is None:
            raise ServerProcessFailed(f"{type(self).__name__} is external and cannot be paused")
        self._process.send_signal(signal.SIGSTOP)
        # Its threads stop one after another, and one that has not yet may still respond.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop it, and start it on the same port with the same data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self.port = 0

    def _log(self) -> str:
        """The end of the server's log."""
        path = self.folder / "server.log"
        return path.read_text(errors="replace")[-LOG_TAIL:] if path.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _start_within(self, attempts: int, *, moving: bool = False) -> None:
        for _ in range(attempts):
            if moving:
                self._choose_ports()
            self._launch()
            if self._comes_up():
                return
            Event().wait(PAUSE_S * 5)
        raise ServerProcessFailed(f"{type(self).__name__} exits immediately after its start:\n{self._log()}")

    def _launch(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            # In its own session: Ctrl-C in the terminal goes to the tests, which then stop the server.
            self._process = subprocess.Popen(  # noqa: S603  # an argv list, built here
                self._arguments(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=dict(self._variables),
                start_new_session=True,
                **identity(self._account),
            )
        self._watchdog = subprocess.Popen(  # noqa: S603  # our own interpreter and a constant
            [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(self._process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _comes_up(self) -> bool:
        """Wait until it responds; False if it exits instead."""
        for _ in range(int(ANSWER_LIMIT_S / PAUSE_S)):
            if not self.running:
                self._end(signal.SIGKILL)
                return False
            if self.answers() and self.running:
                return True
            Event().wait(PAUSE_S)
        self._end(signal.SIGKILL)
        raise ServerProcessFailed(
            f"{type(self).__name__} does not respond after {ANSWER_LIMIT_S:.0f} s:\n{self._log()}"
        )

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None


ServerT = TypeVar("ServerT", bound=ServerProcess)


@contextmanager
def server_or_environment(kind: type[ServerT]) -> Iterator[ServerT]:
    """The external server named in the environment, or a new one."""
    with kind(given_url=os.environ.get(kind.environment, "")) as server:
        yield server


def free_port() -> int:
    """A loopback port that is currently free."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


class Identity(TypedDict):
    """The user of a child process, for `subprocess`; None keeps the current one."""

    user: str | None
    group: int | None
    extra_groups: list[int] | None


def identity(account: str | None) -> Identity:
    """The arguments of `subprocess` to run a child as `account`."""
    if account is None:
        return {"user": None, "group": None, "extra_groups": None}
    return {"user": account, "group": pwd.getpwnam(account).pw_gid, "extra_groups": []}


def wheel_folder(package: str) -> Path:
    """The folder of an installed package. Raises ServerProcessFailed if it is missing."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ServerProcessFailed(f"package {package} is not installed", hint="install sokovan[test]")
    return Path(spec.origin).parent
