"""Client of the fork server, which starts shims in milliseconds."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from sokovan.adapters.process.shim.main import LOG
from sokovan.adapters.process.shim_launcher import START_LIMIT_S, light_command, run_shim, started_record
from sokovan.ports.runtime import RuntimeFailure

_BOOT = "from sokovan.adapters.process.shim.fork_server import main; main()"
_READ_BYTES = 4096


class ForkServer:
    """Starts shims by forking a preloaded process, which is started on first use.

    It is restarted if it has ended; without one, each shim starts its own interpreter.
    """

    def __init__(self) -> None:
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()

    def run_shim(self, plan: dict[str, Any], lock: int) -> dict[str, Any]:
        """Start a shim, wait until its kernel runs and return its record.

        Raises RuntimeFailure. The shim shares `lock` until it has recorded that the kernel runs.
        """
        with contextlib.ExitStack() as own_files:
            reader, writer = os.pipe()
            own_files.callback(os.close, reader)
            errors_file = _anonymous_file(own_files)
            with contextlib.ExitStack() as shim_files:
                shim_files.callback(os.close, writer)
                plan_file = _anonymous_file(shim_files, json.dumps(plan).encode())
                is_sent = self._send([lock, plan_file, writer, errors_file])
            answer = self._answer(reader) if is_sent else b""
            errors = os.pread(errors_file, _READ_BYTES, max(0, os.fstat(errors_file).st_size - _READ_BYTES))
        if answer or errors or (Path(plan["place"]) / LOG).exists():
            return started_record(answer, errors)
        return run_shim(plan, lock)  # no fork server, or it was killed before the shim started

    def close(self) -> None:
        """End the fork server; shims keep running."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, files: list[int]) -> bool:
        with self._lock:
            for _ in range(2):
                try:
                    self._connection = self._connection or _started()
                    socket.send_fds(self._connection, [b"{}"], files)
                except (OSError, subprocess.SubprocessError):
                    self.close()
                else:
                    return True
        return False

    def _answer(self, reader: int) -> bytes:
        """The output of the shim until it closes it."""
        deadline = time.monotonic() + START_LIMIT_S
        pieces: list[bytes] = []
        waiting = select.poll()  # unlike select(), it has no limit on descriptor numbers
        waiting.register(reader, select.POLLIN)
        while waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            piece = os.read(reader, _READ_BYTES)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
        with self._lock:
            self.close()
        raise RuntimeFailure(f"the kernel could not be started: no answer from its shim for {START_LIMIT_S:.0f} s")


def _anonymous_file(stack: contextlib.ExitStack, content: bytes = b"") -> int:
    """An anonymous file in memory: environment variables may contain secrets."""
    handle = os.memfd_create("shim")
    stack.callback(os.close, handle)
    while content:
        content = content[os.write(handle, content) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _started() -> socket.socket:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        try:
            subprocess.run(  # noqa: S603  # this interpreter and a constant
                light_command(_BOOT),
                stdin=far.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                timeout=START_LIMIT_S,
                check=True,
            )
        except BaseException:
            near.close()
            raise
    return near


# Shared by all runtimes of this process.
FORK_SERVER = ForkServer()
atexit.register(FORK_SERVER.close)
