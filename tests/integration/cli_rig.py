"""A real server of `sokovan up`, and the command line as a process in front of it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.forked_commands import ForkedCommand, command_process
from tests.kernel_ports import Rigs, ports_variable

READY = "ready in"
TIMEOUT_S = 180
SOKOVAN = (sys.executable, "-m", "sokovan")


@dataclass
class Rig:
    """A user's home, in which a server is up."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SOKOVAN_")}
        folders = {"XDG_DATA_HOME": self.home / "data", "XDG_CONFIG_HOME": self.home / "config", "HOME": self.home}
        self.environment = {
            **kept,
            **{name: str(path) for name, path in folders.items()},
            **ports_variable(Rigs.COMMAND_LINE),
        }

    def sokovan(self, *words: str, given: str = "", timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """A command line, run to its end."""
        return command_process().run(
            words, environment=self.environment, folder=self.home, stdin=given, limit_s=timeout_s
        )

    def output(self, *words: str) -> bytes:
        """The standard output of a command line, byte for byte."""
        words = (*SOKOVAN, *words)
        return subprocess.run(words, stdout=subprocess.PIPE, check=True, env=self.environment, cwd=self.home).stdout

    def starts(self, *words: str) -> subprocess.Popen[str]:
        """A command line that goes on."""
        return subprocess.Popen(
            [*SOKOVAN, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.home,
        )


def first_line(process: subprocess.Popen[str]) -> str:
    """The first line a process prints; it is killed, and what it complained of shown, if none comes."""
    assert process.stdout is not None
    assert process.stderr is not None
    if not select.select([process.stdout], [], [], TIMEOUT_S)[0]:
        process.kill()
        pytest.fail(f"nothing was printed within {TIMEOUT_S} s; on standard error: {process.stderr.read()}")
    return process.stdout.readline()


@contextmanager
def server_up(home: Path, *options: str) -> Iterator[Rig]:
    """A server that is up for as long as the context is; whatever runs in it is stopped before."""
    rig = Rig(home)
    with (home / "up.log").open("w", encoding="utf-8") as log:
        process = command_process().start(
            ("up", "--port", "0", *options), environment=rig.environment, folder=home, output=log.fileno()
        )
    try:
        await_text(home / "up.log", READY, process)
        yield rig
        rig.sokovan("stop", "--all", "--yes")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)


def await_text(file: Path, text: str, process: ForkedCommand) -> None:
    """Wait until a process has written a text; it tells by ending that it never will."""
    with subprocess.Popen(["tail", "-f", "-n", "+1", str(file)], stdout=subprocess.PIPE, text=True) as tail:  # noqa: S607  # wherever tail is
        try:
            assert tail.stdout is not None
            for line in tail.stdout:
                if text in line:
                    return
                assert process.poll() is None, file.read_text(encoding="utf-8")
        finally:
            tail.terminate()
