"""Runs `sokovan` commands in children of one process that has imported it already.

A client command takes 0.4 s of processor time to start and a server 1.6 s, nearly all of it
for imports, and the acceptance tests start hundreds. Here a process imports the program
once and forks for each command; the child gets the command's arguments, environment, folder
and files, and calls the same `main` as the installed program does.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.acceptance.fast_timings import FastTimings, apply_timings

ROOT = Path(__file__).parents[1]
REQUEST_MAX = 64 << 10
READY_LIMIT_S = 180  # the first command waits for the imports
PACKAGES = ("sokovan.cli", "sokovan.sdk", "sokovan.entrypoints", "sokovan.agent", "sokovan.adapters", "sokovan.api")
# Commands that serve, so that they load what servers need.
SERVERS = frozenset({"up", "server", "agent"})
_FILES = 4  # standard input, output and errors, and the pipe for the exit code


class ForkedCommand:
    """A command that runs; what tests use of `subprocess.Popen`."""

    def __init__(self, words: Sequence[str], answered: int) -> None:
        self._words, self._answered, self._unread = list(words), answered, b""
        self._code: int | None = None
        started = self._number(READY_LIMIT_S)
        assert started is not None, "the process that starts commands has ended"
        self.pid = started

    def poll(self) -> int | None:
        """The exit code, once it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(timeout=0)
        return None

    def wait(self, timeout: float) -> int:
        """Wait for its end; its exit code. Raises TimeoutExpired."""
        if self._code is None:
            code = self._number(timeout)
            self._code = -signal.SIGKILL if code is None else code  # none: the process that waits for it was killed
            os.close(self._answered)
        return self._code

    def send_signal(self, number: int) -> None:
        """Signal it, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _number(self, limit_s: float) -> int | None:
        """The next line of the answers, which is a number; None at their end."""
        ready = select.poll()  # not `select`, which knows only the first thousand files
        ready.register(self._answered, select.POLLIN)
        while b"\n" not in self._unread:
            if not ready.poll(limit_s * 1000):
                raise subprocess.TimeoutExpired(self._words, limit_s)
            read = os.read(self._answered, 64)
            if not read:
                return None
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return int(line)


class CommandProcess:
    """A process that runs commands until its socket is closed."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )
        theirs.close()

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait(timeout=60)

    def run(
        self, words: Sequence[str], *, environment: Mapping[str, str], folder: Path, stdin: str, limit_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command and wait for it. Raises TimeoutExpired."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            given.write(stdin.encode())
            given.seek(0)
            request = _request(words, environment, folder)
            code = self._begin(request, given.fileno(), output.fileno(), errors.fileno()).wait(limit_s)
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(list(words), code, output.read().decode(), errors.read().decode())

    def start(
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        output: int,
        timings: FastTimings | None = None,
    ) -> ForkedCommand:
        """Start a command that reads nothing and writes everything to the file `output`."""
        with Path(os.devnull).open("rb") as nothing:
            return self._begin(_request(words, environment, folder, timings), nothing.fileno(), output, output)

    def _begin(self, request: Mapping[str, Any], *files: int) -> ForkedCommand:
        answered, answer = os.pipe()
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [*files, answer])
        finally:
            os.close(answer)
        return ForkedCommand(request["words"], answered)


def _request(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, timings: FastTimings | None = None
) -> dict[str, Any]:
    return {
        "words": list(words),
        "environment": dict(environment),
        "folder": str(folder),
        "timings": None if timings is None else dataclasses.asdict(timings),
    }


@cache
def command_process() -> CommandProcess:
    """The one of this process, started at the first command; it ends with this process."""
    started = CommandProcess()
    atexit.register(started.close)
    return started


def serve(requests: socket.socket) -> None:
    """Fork for each request, until the other end is closed."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.freeze()  # the memory of what is loaded stays shared with the children
    children = Children()
    ready = select.poll()
    ready.register(requests, select.POLLIN)
    while True:
        for file, _ in ready.poll():
            if file != requests.fileno():
                ready.unregister(file)
                children.report(file)
                continue
            request, files, _, _ = socket.recv_fds(requests, REQUEST_MAX + 1, _FILES)
            if not request:
                return
            child = os.fork()
            if child == 0:
                requests.close()
                children.forget()
                os.close(files.pop())
                _run(json.loads(request), files)
            for given in files[: _FILES - 1]:
                os.close(given)
            ready.register(children.add(child, files[_FILES - 1]), select.POLLIN)


class Children:
    """The commands that run, each by a file that becomes readable when it has ended."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[int, int]] = {}

    def add(self, child: int, answer: int) -> int:
        """Answer with the process id of a command; returns its file."""
        handle = os.pidfd_open(child)
        self._running[handle] = (child, answer)
        _answer(answer, child)
        return handle

    def report(self, handle: int) -> None:
        """Answer with the exit code of a command that has ended, as a shell reports it."""
        child, answer = self._running.pop(handle)
        _answer(answer, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os.close(handle)
        os.close(answer)

    def forget(self) -> None:
        """Close all files, in a process that is no parent of these commands."""
        for handle, (_, answer) in self._running.items():
            os.close(handle)
            os.close(answer)


def _answer(file: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(file, f"{number}\n".encode())


def _run(request: dict[str, Any], files: Sequence[int]) -> None:
    """Become the command."""
    from sokovan.cli.main import main  # noqa: PLC0415  # imported with all others

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    importlib.invalidate_caches()
    sys.argv = ["sokovan", *request["words"]]
    if request["words"][:1] and request["words"][0] not in SERVERS:
        # The program loads it for servers only, and the parser checks each value with it where it is loaded.
        sys.modules.pop("pydantic", None)
    if request["timings"] is not None:
        apply_timings(FastTimings(**request["timings"]))
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:  # noqa: BLE001  # as the interpreter reports it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
