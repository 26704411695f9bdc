"""Runs `sokovan` commands in children of one process that has imported it already.

A command takes 0.4 s of processor time to start, nearly all of it for imports, and the
acceptance tests run hundreds. Here a process imports the command line once and forks for
each command; the child gets the command's arguments, environment, folder and files, and
calls the same `main` as the installed program does.
"""

from __future__ import annotations

import atexit
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

ROOT = Path(__file__).parents[2]
REQUEST_MAX = 64 << 10
_FILES = 4  # standard input, output and errors, and the pipe for the exit code


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
        request = json.dumps({"words": list(words), "environment": dict(environment), "folder": str(folder)}).encode()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            given.write(stdin.encode())
            given.seek(0)
            answered, answer = os.pipe()
            files = [given.fileno(), output.fileno(), errors.fileno(), answer]
            socket.send_fds(self._socket, [request], files)
            os.close(answer)
            try:
                code = _exit_code(answered, words, limit_s)
            finally:
                os.close(answered)
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(list(words), code, output.read().decode(), errors.read().decode())


def _exit_code(answered: int, words: Sequence[str], limit_s: float) -> int:
    ready = select.poll()  # not `select`, which knows only the first thousand files
    ready.register(answered, select.POLLIN)
    if not ready.poll(limit_s * 1000):
        raise subprocess.TimeoutExpired(list(words), limit_s)
    return int(os.read(answered, 64) or b"-9")  # nothing: the process that runs commands was killed


@cache
def command_process() -> CommandProcess:
    """The one of this process, started at the first command; it ends with this process."""
    started = CommandProcess()
    atexit.register(started.close)
    return started


def serve(requests: socket.socket) -> None:
    """Fork for each request, until the other end is closed."""
    for package in ("sokovan.cli", "sokovan.sdk"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    while True:
        request, files, _, _ = socket.recv_fds(requests, REQUEST_MAX + 1, _FILES)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            _wait_for_command(json.loads(request), files)
        for file in files:
            os.close(file)
        _reap()


def _reap() -> None:
    """Collect children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _wait_for_command(request: dict[str, Any], files: Sequence[int]) -> None:
    """Run the command in a child, and write its exit code, as a shell reports it, when it has ended."""
    answer = files[_FILES - 1]
    child = os.fork()
    if child == 0:
        os.close(answer)
        _run(request, files[: _FILES - 1])
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(answer, str(code).encode())
    os._exit(0)


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
    sys.argv = ["sokovan", *request["words"]]
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
