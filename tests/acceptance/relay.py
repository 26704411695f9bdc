"""A relay between an agent and a manager that holds back one direction, both, or cuts connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PART = 1 << 16


class Relay:
    """Forwards TCP connections to one address.

    What is held back arrives later, like packets that are sent again after a partition, unless
    an end gives up its connection meanwhile.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self._forward, self._back = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.taken = 0
        self.heal()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The address for agents."""
        host, port = self._door.getsockname()
        return f"wss://{host}:{port}"

    def hold(self, *, forward: bool = False, back: bool = False) -> None:
        """Hold back what agents send (`forward`), or what the manager sends (`back`)."""
        if forward:
            self._forward.clear()
        if back:
            self._back.clear()

    def heal(self) -> None:
        """Forward everything again."""
        self._forward.set()
        self._back.set()

    def cut(self) -> None:
        """Close every connection."""
        with self._lock:
            ended, self._open = self._open, set()
        for one in ended:
            _close(one)

    def close(self) -> None:
        """Take no more connections, and close those that are there."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.heal()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target, timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
                self.taken += 1
            for source, sink, passes in ((near, far, self._forward), (far, near, self._back)):
                threading.Thread(target=self._pump, args=(source, sink, passes), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, passes: threading.Event) -> None:
        with suppress(OSError):
            while part := source.recv(PART):
                passes.wait()
                sink.sendall(part)
            passes.wait()
            sink.shutdown(socket.SHUT_WR)
            return
        with self._lock:
            self._open -= {source, sink}
        for one in (source, sink):
            _close(one)


def _close(one: socket.socket) -> None:
    # Without the shutdown a thread that waits in recv would keep the connection open.
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def relays(*targets: tuple[str, int]) -> Iterator[tuple[Relay, ...]]:
    """One relay for each address."""
    made = tuple(Relay(host, port) for host, port in targets)
    try:
        yield made
    finally:
        for one in made:
            one.close()
