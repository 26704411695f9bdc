"""Passes the listening socket of a gateway on to the next server.

The proxy of a server that was killed serves on. The next server takes a copy of its socket
and then asks it to end: the port is open all the time, and connections wait for the next proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

SOCKET_FILE = "listener.sock"
# A proxy that does not answer is ended without its socket.
ANSWER_S = 2.0


class ListenerCopies:
    """Gives copies of a listening socket to those who may enter the proxy's folder."""

    def __init__(self, root: Path, listener: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._path, self._listener = root / SOCKET_FILE, listener.dup()
        self._path.unlink(missing_ok=True)
        self._requests = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._requests.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        with _address(root) as address:
            self._requests.bind(address)
        self._requests.listen()
        self._loop.add_reader(self._requests.fileno(), self._give)

    def close(self) -> None:
        """Give no more copies."""
        self._loop.remove_reader(self._requests.fileno())
        self._requests.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _give(self) -> None:
        with contextlib.suppress(OSError):
            caller, _ = self._requests.accept()
            with caller:
                socket.send_fds(caller, [b"1"], [self._listener.fileno()])


def taken_listener(root: Path) -> socket.socket | None:
    """A copy of the socket of the proxy that runs in a folder; None if it gives none."""
    for folder in sorted(path.parent for path in root.rglob(SOCKET_FILE)):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as request:
            request.settimeout(ANSWER_S)
            with _address(folder) as address:
                request.connect(address)
            _, files, _, _ = socket.recv_fds(request, 1, 1)
            if files:
                return socket.socket(fileno=files[0])
    return None


@contextlib.contextmanager
def _address(root: Path) -> Iterator[str]:
    """The socket's address, short for any depth of the folder."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET_FILE}"
    finally:
        os.close(folder)
