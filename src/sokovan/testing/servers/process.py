"""A server as a child process: started, stopped, killed and started again."""

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
# Another process may take the port between finding it free and listening on it.
START_ATTEMPTS = 5
# What a killed server leaves behind (backends, their shared memory) may refuse its successor for some seconds.
RESTART_ATTEMPTS = 300
LOG_TAIL = 2000

# Ends the server and its folder if the starter dies without doing so: the pipe on standard input closes with it.
_LEASH = """
import contextlib, os, shutil, signal, sys
sys.stdin.buffer.read()
with contextlib.suppress(ProcessLookupError):
    os.kill(int(sys.argv[1]), signal.SIGKILL)
shutil.rmtree(sys.argv[2], ignore_errors=True)
"""


class ServerFailed(SokovanError):
    """A server for tests did not do what it was asked."""

    code = "test-server-failed"
    hint = "read the end of its log above; name a server that runs in SOKOVAN_TEST_..._URL to do without"


class LocalServer(ABC):
    """A server on loopback whose data lives in a temporary folder of its own."""

    environment: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, *, given_url: str = "") -> None:
        self.port = 0
        self._given_url = given_url
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._leash: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients connect."""

    @abstractmethod
    def _arguments(self) -> Sequence[str]:
        """The program and its arguments."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether this server, and not a stranger at its port, answers a request now."""

    def _prepare(self) -> None:
        """Make what the first start needs: a folder, unless a server needs more."""
        self.folder.mkdir(exist_ok=True)

    def _choose_ports(self) -> None:
        """Where to listen from now on."""
        self.port = free_port()

    @property
    def _account(self) -> str | None:
        """The user that the server runs as, None for the present one."""
        return None

    @property
    def _variables(self) -> Mapping[str, str]:
        """The server's environment."""
        return {"PATH": os.defpath, "LC_ALL": "C"}

    @property
    def is_given(self) -> bool:
        """Whether somebody else runs this server, so that it may not be killed."""
        return bool(self._given_url)

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process, None if there is none of ours."""
        return self._process.pid if self._process is not None else None

    @property
    def folder(self) -> Path:
        """The temporary folder: data, log, and whatever the server needs."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sokovan-server-"))
        return self._folder

    def start(self) -> None:
        """Start, at a free port the first time and at the same one later."""
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
        """End it in order; its data stays for the next start."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End it as a power cut would; its data stays for the next start."""
        if self.is_given:
            raise ServerFailed(f"{type(self).__name__} is run by somebody else and may not be killed")
        self._end(signal.SIGKILL)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it stand still: connections stay open, and nothing is answered."""
        if self._process is None:
            raise ServerFailed(f"{type(self).__name__} does not run here, so it cannot be paused")
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop it if it runs, and start it at the same port on the same data."""
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
        """The end of what the server wrote."""
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
        raise ServerFailed(f"{type(self).__name__} ends as soon as it is started:\n{self._log()}")

    def _launch(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            # A session of its own: an interrupt at the terminal is for the tests, which then end the server.
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
        self._leash = subprocess.Popen(  # noqa: S603  # our own interpreter and a constant
            [sys.executable, "-I", "-S", "-c", _LEASH, str(self._process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _comes_up(self) -> bool:
        """Whether it answers; False if it ends instead."""
        for _ in range(int(ANSWER_LIMIT_S / PAUSE_S)):
            if not self.running:
                self._end(signal.SIGKILL)
                return False
            if self.answers() and self.running:
                return True
            Event().wait(PAUSE_S)
        self._end(signal.SIGKILL)
        raise ServerFailed(f"{type(self).__name__} does not answer after {ANSWER_LIMIT_S:.0f} s:\n{self._log()}")

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._leash is not None:
            self._leash.kill()
            self._leash.communicate()
            self._leash = None


ServerT = TypeVar("ServerT", bound=LocalServer)


@contextmanager
def server_or_environment(kind: type[ServerT]) -> Iterator[ServerT]:
    """The server that the environment names for this kind, or one of our own."""
    with kind(given_url=os.environ.get(kind.environment, "")) as server:
        yield server


def free_port() -> int:
    """A port on loopback that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


class Identity(TypedDict):
    """Whom a child runs as, as `subprocess` takes it; None leaves it as it is."""

    user: str | None
    group: int | None
    extra_groups: list[int] | None


def identity(account: str | None) -> Identity:
    """What makes a child run as `account`, for `subprocess`."""
    if account is None:
        return {"user": None, "group": None, "extra_groups": None}
    return {"user": account, "group": pwd.getpwnam(account).pw_gid, "extra_groups": []}


def wheel_folder(package: str) -> Path:
    """Where an installed package lies; raises ServerFailed if it is not there."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ServerFailed(f"package {package} is not installed", hint="install sokovan[test]")
    return Path(spec.origin).parent
