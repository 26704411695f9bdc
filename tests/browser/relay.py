"""A line to a server that a test can cut."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Self

PIECE = 65_536


class Relay:
    """Passes connections at a port of its own on to a port of this machine, except while it is cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self._start(self._accept, self._door)

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        _close(self._door)
        while self._open:
            _close(self._open.pop())

    def mend(self) -> None:
        """Accept connections again."""
        self._door = socket.create_server(("127.0.0.1", self.port))
        self._start(self._accept, self._door)

    @classmethod
    @contextmanager
    def to(cls, port: int) -> Iterator[Self]:
        """A line that is cut in the end."""
        relay = cls(port)
        try:
            yield relay
        finally:
            relay.cut()

    def _accept(self, door: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = door.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += [near, far]
                self._start(_pass, near, far)
                self._start(_pass, far, near)

    def _start(self, work: Callable[..., None], *sockets: socket.socket) -> None:
        Thread(target=work, args=sockets, daemon=True).start()


def _pass(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while piece := one.recv(PIECE):
            other.sendall(piece)
    _close(other)


def _close(one: socket.socket) -> None:
    # Closing alone does not wake a thread that waits for it.
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
