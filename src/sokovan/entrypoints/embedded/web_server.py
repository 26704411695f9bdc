"""Serves the API with uvicorn on a bound socket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.web.api_connections import BoundedHttp, BoundedSockets
from sokovan.entrypoints.web.connection_limits import Connections
from sokovan.entrypoints.web.listener import bound_listener

# Number of consecutive ports to try.
PORTS_TRIED = 50
STREAMS_END_S = 2
# Connections that are accepted at once, before any can be refused; far fewer than the descriptors kept in reserve.
BACKLOG = 256
OVERDUE_CHECK_S = 1.0


class NoFreePort(SokovanError):
    """Neither the requested port nor the ones after it are free."""

    code = "no-free-port"
    hint = "choose a free port with --port"


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening socket on the requested port, or on the next free one.

    Port 0 means any. Raises NoFreePort.
    """
    ports = (0,) if port == 0 else range(port, min(port + PORTS_TRIED, 65_536))
    for candidate in ports:
        try:
            return bound_listener(host, candidate, backlog=BACKLOG)
        except OSError as error:
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise NoFreePort(f"{host}:{candidate}: {error.strerror or error}") from error
    raise NoFreePort(f"{host}: no port is free from {port} to {port + PORTS_TRIED - 1}")


class _Server(uvicorn.Server):
    """uvicorn without signal handlers; the caller handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers."""
        yield


@contextlib.asynccontextmanager
async def served(
    app: FastAPI, listener: socket.socket, connections: Connections, tls: ssl.SSLContext | None = None
) -> AsyncIterator[asyncio.Future[None]]:
    """Serve the app while the context is open; then end its streams.

    The future is done if the server ended by itself. A listener with TLS is a second one
    of an app that is served already.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        # uvicorn calls these two with its own arguments, as it would the classes.
        http=cast("Any", partial(BoundedHttp, connections=connections)),
        ws=cast("Any", partial(BoundedSockets, connections=connections)),
        backlog=BACKLOG,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=STREAMS_END_S,
        h11_max_incomplete_event_size=64 << 10,
        ws_max_size=1 << 20,
        lifespan="on" if tls is None else "off",
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    watching = asyncio.create_task(_close_overdue(connections))
    try:
        yield serving
    finally:
        watching.cancel()
        server.should_exit = True
        await serving


async def _close_overdue(connections: Connections) -> None:
    clock = SystemClock()
    while True:
        await clock.sleep(OVERDUE_CHECK_S)
        connections.close_overdue()
