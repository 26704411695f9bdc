"""Shims in milliseconds: from a process that has everything loaded already."""

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
from sokovan.adapters.process.shim_launcher import START_LIMIT_S, light_command, require_started, run_shim
from sokovan.ports.runtime import RuntimeFailure

_BOOT = "from sokovan.adapters.process.shim.fork_server import main; main()"
_READ_BYTES = 4096


class ForkServer:
    """Starts shims by copies of one process, which is started when first needed.

    One that is gone is started anew; where none can be had, each shim starts by itself.
    """

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        self._turn = threading.Lock()

    def run_shim(self, plan: dict[str, Any], lock: int) -> None:
        """Start a shim and wait until its kernel runs; raises RuntimeFailure.

        The shim holds `lock` as we do, until it has written down that the kernel runs.
        """
        with contextlib.ExitStack() as ours:
            told, answer = os.pipe()
            ours.callback(os.close, told)
            trouble = _nameless_file(ours)
            with contextlib.ExitStack() as theirs:
                theirs.callback(os.close, answer)
                given = _nameless_file(theirs, json.dumps(plan).encode())
                is_asked = self._ask([lock, given, answer, trouble])
            said = self._answer(told) if is_asked else b""
            complaint = os.pread(trouble, _READ_BYTES, max(0, os.fstat(trouble).st_size - _READ_BYTES))
        if said or complaint or (Path(plan["place"]) / LOG).exists():
            require_started(said, complaint)
        else:  # there is no nursery, or it was killed before the shim had begun
            run_shim(plan, lock)

    def close(self) -> None:
        """Let the process go; shims stay."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _ask(self, files: list[int]) -> bool:
        with self._turn:
            for _ in range(2):
                try:
                    self._line = self._line or _started()
                    socket.send_fds(self._line, [b"{}"], files)
                except (OSError, subprocess.SubprocessError):
                    self.close()
                else:
                    return True
        return False

    def _answer(self, told: int) -> bytes:
        """What the shim says until it has no more to say, or is gone."""
        deadline = time.monotonic() + START_LIMIT_S
        pieces: list[bytes] = []
        waiting = select.poll()  # unlike select(), it takes a file of any number
        waiting.register(told, select.POLLIN)
        while waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            piece = os.read(told, _READ_BYTES)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
        with self._turn:
            self.close()
        raise RuntimeFailure(f"the kernel could not be started: its shim said nothing for {START_LIMIT_S:.0f} s")


def _nameless_file(stack: contextlib.ExitStack, content: bytes = b"") -> int:
    """A file in memory, which nobody else can open; variables of kernels may be secret."""
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
            subprocess.run(  # noqa: S603  # our own interpreter and a constant
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


# One for all runtimes of this process.
NURSERY = ForkServer()
atexit.register(NURSERY.close)
