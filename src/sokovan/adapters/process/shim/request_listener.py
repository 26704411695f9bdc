"""The shim's ear: requests on a socket, each a message, with open files attached."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SOCKET = "control.sock"
MESSAGE_MAX = 128 << 10
CALLERS_MAX = 64
STREAMS_MAX = 3
_FILE_BYTES = array.array("i").itemsize


def address(folder: int) -> str:
    """The socket's address in an open folder, short however deep the folder lies."""
    return f"/proc/self/fd/{folder}/{SOCKET}"


class ShimRequest:
    """Somebody who asks; `command` is the pid of what was started for them."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.command = 0

    def receive(self, files_max: int = STREAMS_MAX) -> tuple[dict[str, Any] | None, list[int]]:
        """The next message and its files; None at the end of the line."""
        space = socket.CMSG_SPACE(files_max * _FILE_BYTES)
        text, extras, _, _ = self.line.recvmsg(MESSAGE_MAX, space, socket.MSG_CMSG_CLOEXEC)
        files = array.array("i")
        for level, kind, content in extras:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                files.frombytes(content[: len(content) - len(content) % _FILE_BYTES])
        if not text:
            return None, list(files)
        try:
            message = json.loads(text)
        except ValueError:
            message = {}
        return (message if isinstance(message, dict) else {}), list(files)

    def answer(self, **content: object) -> None:
        """Tell the caller; one who no longer listens is no trouble of ours."""
        with contextlib.suppress(OSError):
            self.line.send(json.dumps(content).encode(), socket.MSG_DONTWAIT)


class RequestListener:
    """Listens in the kernel's folder."""

    def __init__(self, folder: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET, dir_fd=folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(address(folder))
        self._socket.listen(CALLERS_MAX)
        self._socket.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        self.callers: dict[int, ShimRequest] = {}

    def fileno(self) -> int:
        """What to wait on for callers."""
        return self._socket.fileno()

    def accept(self) -> int | None:
        """Let the next caller in; None if nobody came, or too many are there."""
        try:
            line, _ = self._socket.accept()
        except OSError:
            return None
        if len(self.callers) >= CALLERS_MAX:
            line.close()
            return None
        line.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        self.callers[line.fileno()] = ShimRequest(line)
        return line.fileno()

    def dismiss(self, number: int) -> ShimRequest:
        """End a line."""
        caller = self.callers.pop(number)
        caller.line.close()
        return caller

    def close(self, folder: int) -> None:
        """End every line and leave nothing behind."""
        for number in list(self.callers):
            self.dismiss(number)
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(SOCKET, dir_fd=folder)
