"""Idle connections to endpoints, and new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sokovan.proxy.connections.upstream_connection import UpstreamConnection
from sokovan.proxy.endpoint_connections import Dialler
from sokovan.proxy.routing.ejection import CONNECT_TIMEOUT
from sokovan.proxy.routing.endpoint_state import EndpointState

# Shorter than the keep-alive of common servers (5 s), so that they rarely close first.
IDLE_MS_MAX = 4_000
IDLE_PER_ENDPOINT_MAX = 256
# Another program listens at the port of an endpoint.
FOREIGN = "foreign-listener"


class UpstreamPools:
    """Connections by endpoint; the most recently used is taken first."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listeners: Callable[[int], frozenset[int] | None] = lambda _port: None,
        dialler: Dialler | None = None,
    ) -> None:
        self._loop, self._listeners, self._dialler = loop, listeners, dialler or Dialler()
        self._idle: dict[str, list[UpstreamConnection]] = {}
        self._connecting: set[asyncio.Task[None]] = set()

    def take(self, endpoint: EndpointState, now_ms: int) -> UpstreamConnection | None:
        """An idle connection."""
        idle = self._idle.get(endpoint.entry.endpoint_id)
        while idle:
            found = idle.pop()
            if found.usable and now_ms - found.idle_ms < IDLE_MS_MAX:
                return found
            found.transport.abort()
        return None

    def give(self, endpoint: EndpointState, connection: UpstreamConnection, now_ms: int) -> None:
        """Keep a connection for the next request, or close it."""
        idle = self._idle.setdefault(endpoint.entry.endpoint_id, [])
        if not connection.usable or len(idle) >= IDLE_PER_ENDPOINT_MAX or endpoint.entry.state == "DRAINING":
            connection.abandon()
            return
        # The client of the last request may have read too slowly.
        connection.transport.resume_reading()
        connection.reused, connection.idle_ms = True, now_ms
        idle.append(connection)

    def connect(
        self, endpoint: EndpointState, done: Callable[[UpstreamConnection | None, str], None], *, left_ms: int
    ) -> asyncio.Task[None]:
        """Open a connection; `done` gets it, or None and the cause.

        `left_ms` is how much longer the request may wait for it.
        """
        limit_ms = endpoint.connection_time.limit_ms(left_ms=left_ms)
        task = self._loop.create_task(self._connect(endpoint, done, limit_ms))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return task

    async def _connect(
        self, endpoint: EndpointState, done: Callable[[UpstreamConnection | None, str], None], limit_ms: int
    ) -> None:
        began_s = self._loop.time()
        try:
            async with asyncio.timeout(limit_ms / 1000):
                _, connection = await self._dialler.connect(endpoint.entry, UpstreamConnection)
        except TimeoutError:
            endpoint.connection_time.was_late(limit_ms)
            done(None, CONNECT_TIMEOUT)
        except OSError:
            done(None, "refused")
        else:
            endpoint.connection_time.opened(int(1000 * (self._loop.time() - began_s)))
            # Asked after the connection was made: a listener that is still there is the one that took it.
            if endpoint.owns(self._listeners(endpoint.entry.port)):
                done(connection, "")
            else:
                connection.abandon()
                done(None, FOREIGN)

    def close_idle(self, now_ms: int, known: Callable[[str], bool]) -> None:
        """Close connections that were idle for too long, or whose endpoint is gone."""
        for endpoint_id, idle in list(self._idle.items()):
            keep = []
            for connection in idle:
                if connection.usable and now_ms - connection.idle_ms < IDLE_MS_MAX and known(endpoint_id):
                    keep.append(connection)
                else:
                    connection.abandon()
            if keep:
                self._idle[endpoint_id] = keep
            else:
                del self._idle[endpoint_id]

    def close(self) -> None:
        """Close all."""
        for task in self._connecting:
            task.cancel()
        self.close_idle(0, lambda _endpoint_id: False)
