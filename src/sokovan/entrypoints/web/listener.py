"""Sockets that listen: for the API, for gateways, for an agent's data listener."""

from __future__ import annotations

import socket


def bound_listener(host: str, port: int, *, backlog: int | None = None) -> socket.socket:
    """A bound socket, which listens if it has a `backlog`. Raises OSError.

    Port 0 means any.
    """
    # The protocol is explicit: asyncio sets TCP_NODELAY only on sockets with IPPROTO_TCP, and without it a response
    # that is written in two parts waits 40 ms for the client's acknowledgement of the first.
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Connections of a server that was just stopped must not block the port.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        if backlog is not None:
            found.listen(backlog)
    except OSError:
        found.close()
        raise
    return found
