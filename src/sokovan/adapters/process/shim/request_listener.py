"""The shim's control socket: requests as messages, with open files attached."""

from __future__ import annotations

import array
import contextlib
import errno
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
    """The socket's address in an open folder, short for any depth of the folder."""
    return f"/proc/self/fd/{folder}/{SOCKET}"


class ShimRequest:
    """A client connection; `command` is the pid of the process started for it."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.command = 0

    def receive(self, files_max: int = STREAMS_MAX) -> tuple[dict[str, Any] | None, list[int]]:
        """The next message and its files; None at the end of the connection."""
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
        """Answer the client; one that has disconnected is ignored."""
        with contextlib.suppress(OSError):
            self.line.send(json.dumps(content).encode(), socket.MSG_DONTWAIT)


class RequestListener:
    """Listens on a socket in the kernel's folder."""

    def __init__(self, folder: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.bind(address(folder))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            # That of a start that was abandoned.
            os.unlink(SOCKET, dir_fd=folder)
            self._socket.bind(address(folder))
        self._socket.listen(CALLERS_MAX)
        self._socket.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        self.callers: dict[int, ShimRequest] = {}

    def fileno(self) -> int:
        """The descriptor to poll for new connections."""
        return self._socket.fileno()

    def accept(self) -> int | None:
        """Accept a connection; None if there is none, or the limit is reached."""
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

    def close_connection(self, number: int) -> ShimRequest:
        """Close a connection."""
        caller = self.callers.pop(number)
        caller.line.close()
        return caller

    def close(self, folder: int) -> None:
        """Close every connection and remove the socket."""
        for number in list(self.callers):
            self.close_connection(number)
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(SOCKET, dir_fd=folder)
