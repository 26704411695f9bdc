"""The API on a socket of its own choice, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sokovan.domain.errors import SokovanError

# How many ports after the wished one are tried.
PORTS_TRIED = 50
STREAMS_END_S = 2


class NoFreePort(SokovanError):
    """Neither the wished port nor one of those after it is free."""

    code = "no-free-port"
    hint = "name a free one with --port"


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening socket on the wished port, or on the next one that is free.

    Port 0 takes any. Raises NoFreePort.
    """
    wished = (0,) if port == 0 else range(port, min(port + PORTS_TRIED, 65_536))
    for candidate in wished:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Said in full: asyncio lets small answers go at once only on sockets that say they are TCP, and otherwise each
        # one that is written in two parts waits 40 ms for the client's acknowledgement of the first.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        # A server that was stopped a moment ago leaves connections behind that must not keep its port from us.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, candidate))
            found.listen(1024)
        except OSError as error:
            found.close()
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise NoFreePort(f"{host}:{candidate}: {error.strerror or error}") from error
            continue
        return found
    raise NoFreePort(f"{host}: no port is free from {port} to {port + PORTS_TRIED - 1}")


class _Server(uvicorn.Server):
    """uvicorn, with signals left to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


class _Sockets(WebSocketsSansIOProtocol):
    """uvicorn's WebSockets, which know that an answer in place of a socket is an end too."""

    async def send(self, message: Any) -> None:
        """Send it; without this, a socket that was refused is logged as one that was forgotten."""
        await super().send(message)
        self.handshake_complete = self.handshake_complete or self.close_sent


@contextlib.asynccontextmanager
async def served(app: FastAPI, listener: socket.socket) -> AsyncIterator[None]:
    """Serve the app for as long as the context is open; streams are ended with it."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws=_Sockets,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=STREAMS_END_S,
        h11_max_incomplete_event_size=64 << 10,
        ws_max_size=1 << 20,
        lifespan="on",
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
