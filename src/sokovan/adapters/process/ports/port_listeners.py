"""Asks the kernel of the machine which sockets listen at a port, by netlink.

A socket keeps its number for as long as it exists, and no other one gets it: a port that
another program has taken over is known by that.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

_SOCK_DIAG = 4
_DIAG_BY_FAMILY = 20
_REQUEST_AND_DUMP = 0x301
_ERROR, _DONE = 2, 3
_LISTEN = 1 << 10
_HEADER = struct.Struct("=IHHII")
_QUERY = struct.Struct("=BBBBI")
# In an answer: header, family and states, addresses and ports, expiry, two queues, owner; then the number.
_NUMBER_AT = _HEADER.size + 4 + 48 + 16
_ANSWER_MAX = 1 << 16
_WAIT_S = 1.0


class PortListeners:
    """Looks up listening sockets, where the machine shows them."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._works = True

    def at(self, port: int) -> frozenset[int] | None:
        """The numbers of the sockets that get connections to a port; None: not known."""
        return self._asked(lambda: self._found(port, socket.AF_INET) or self._found(port, socket.AF_INET6))

    def every(self, port: int) -> frozenset[int] | None:
        """The numbers of all sockets that listen at a port; None: not known."""
        return self._asked(lambda: self._found(port, socket.AF_INET) | self._found(port, socket.AF_INET6))

    def _asked(self, question: Callable[[], set[int]]) -> frozenset[int] | None:
        if not self._works:
            return None
        try:
            return frozenset(question())
        except (OSError, AttributeError, struct.error):
            self._works = False
            self.close()
            return None

    def close(self) -> None:
        """Close the connection to the kernel."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _found(self, port: int, family: int) -> set[int]:
        link = self._socket
        if link is None:
            link = self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG)
            link.settimeout(_WAIT_S)
        query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, _LISTEN) + struct.pack("!H", port) + bytes(46)
        link.send(_HEADER.pack(_HEADER.size + len(query), _DIAG_BY_FAMILY, _REQUEST_AND_DUMP, 1, 0) + query)
        numbers: set[int] = set()
        while True:
            data = link.recv(_ANSWER_MAX)
            while data:
                size, kind = struct.unpack_from("=IH", data)
                if kind == _DONE:
                    return numbers
                if kind == _ERROR or size < _HEADER.size:
                    raise OSError("the machine does not list its sockets")
                numbers.add(struct.unpack_from("=I", data, _NUMBER_AT)[0])
                data = data[(size + 3) & ~3 :]
