"""Runs a proxy: accepts connections, applies tables, ends what is overdue."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from sokovan.ports.environment import Clock
from sokovan.proxy.accounts.key_verdicts import UnknownKey
from sokovan.proxy.connections.attempt import Progress
from sokovan.proxy.connections.client_connection import HEAD_MS, LINGER_MS, ClientConnection
from sokovan.proxy.connections.exchange import Exchange, serve_waiting
from sokovan.proxy.connections.upstream_pools import UpstreamPools
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.control.engine_samples import EngineSamples
from sokovan.proxy.control.probes import Probes
from sokovan.proxy.control.proxy_metrics import exposition
from sokovan.proxy.gateway import key_of
from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.proxy.routing.endpoint_state import STALL_MS, STALLED_REQUESTS, EndpointState
from sokovan.proxy.routing.route_state import RouteState
from sokovan.wire.serving.route_table import TableUpdate

SWEEP_S = 0.25
# A wait between two sweeps that takes longer than this shows that the event loop was held up.
LATE_MS = 500
BACKLOG = 1024
# A proxy that stops answers requests on connections that were kept for this long.
KEPT_MS = 1_000


class ProxyServer:
    """One proxy on one event loop; `changed` is called after each new table."""

    def __init__(self, context: ProxyContext, *, clock: Clock, changed: Callable[[], None] = lambda: None) -> None:
        self._context, self._clock, self._changed = context, clock, changed
        self._pools = UpstreamPools(context.loop, context.listeners, context.dialler)
        self._probes = Probes(context)
        self._samples = EngineSamples(context)
        self._servers: list[asyncio.Server] = []
        context.metrics = lambda: exposition(context)

    async def listen(self, listener: socket.socket, *, tls: ssl.SSLContext | None = None) -> None:
        """Accept connections."""
        loop = self._context.loop
        server = await loop.create_server(
            lambda: ClientConnection(self._context, self._pools),
            sock=listener,
            backlog=BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=HEAD_MS / 1000 if tls else None,
            ssl_shutdown_timeout=LINGER_MS / 1000 if tls else None,
        )
        self._servers.append(server)

    def apply(self, update: TableUpdate) -> None:
        """Put a table or a delta in force. Raises StaleDelta."""
        context = self._context
        before = (context.table.epoch, context.table.version)
        removed = dict(context.table.routes)
        context.table.apply(update)
        context.table_ms = context.now_ms()
        context.keys_cached.clear()
        context.accounts.keep(context.table.keys)
        self._close_revoked()
        for route in {**removed, **context.table.routes}.values():
            serve_waiting(route)
            for waiting in route.queue.all():
                waiting.recheck()
        if before != (context.table.epoch, context.table.version):
            context.table_changed.set()
            self._changed()

    def _close_revoked(self) -> None:
        """Close the upgraded connections of keys that are gone."""
        for exchange in list(self._context.exchanges):
            attempt = exchange.attempt
            if attempt is None or attempt.progress is not Progress.SPLICED or exchange.key is None:
                continue
            found = key_of(self._context, exchange.message.head)
            if isinstance(found, UnknownKey):
                self._context.ask_key(found.secret, lambda: None)
            elif isinstance(found, ProxyRefusal) and found.status == 401:
                attempt.upstream_lost("revoked", reused=False)

    async def run(self) -> None:
        """Probe endpoints and end what is overdue, until cancelled.

        After the loop was held up, what has arrived meanwhile is read first.
        """
        late = False
        while True:
            begun_ms = self._context.now_ms()
            await self._clock.sleep(SWEEP_S)
            late = not late and self._context.now_ms() - begun_ms > LATE_MS
            if not late:
                self.sweep()

    def sweep(self) -> None:
        """Do the periodic work once."""
        context = self._context
        now_ms = context.now_ms()
        self._probes.due()
        self._samples.due()
        for exchange in list(context.exchanges):
            exchange.overdue(now_ms)
        for client in list(context.clients):
            client.overdue(now_ms)
        self._close_revoked()
        self._find_stalls(now_ms)
        known = {one for route in context.table.routes.values() for one in route.endpoints}
        self._pools.close_idle(now_ms, known.__contains__)
        for route in context.table.routes.values():
            if route.queue.length:
                serve_waiting(route)
                self._refuse_waiting(route)

    def _refuse_waiting(self, route: RouteState[Exchange]) -> None:
        """Refuse what waits for endpoints that fail their checks, unless others are about to serve."""
        if route.failing() and not (route.entry.holding or route.warming()):
            for waiting in route.queue.all():
                waiting.recheck()

    def _find_stalls(self, now_ms: int) -> None:
        """Eject endpoints that send nothing on two requests, though their probes succeed."""
        silent: dict[EndpointState, int] = {}
        for exchange in self._context.exchanges:
            attempt = exchange.attempt
            if attempt is None or attempt.progress not in {Progress.SENT, Progress.STREAMING}:
                continue
            if not attempt.awaits_endpoint:
                continue
            endpoint = attempt.endpoint
            if now_ms - max(attempt.heard_ms, endpoint.last_byte_ms) >= STALL_MS:
                silent[endpoint] = silent.get(endpoint, 0) + 1
        for endpoint, count in silent.items():
            if count >= STALLED_REQUESTS and not endpoint.stalled:
                endpoint.stalled = True
                endpoint.last_error = "stalled"
                endpoint.ejection.broken(now_ms, "stalled")

    async def drain(self, limit_s: float) -> None:
        """Accept no more connections; end with the last request, or after `limit_s`.

        A request on a connection that was kept is answered, and the answer says that it ends.
        """
        context = self._context
        context.draining = True
        for server in self._servers:
            server.close()
        now_ms = context.now_ms()
        until_ms, kept_until_ms = now_ms + int(limit_s * 1000), now_ms + KEPT_MS
        while now_ms < until_ms and (self._under_way() or (context.clients and now_ms < kept_until_ms)):
            await self._clock.sleep(0.05)
            now_ms = context.now_ms()
        self.close()

    def _under_way(self) -> bool:
        exchanges: set[Exchange] = self._context.exchanges
        return any(one.attempt is None or one.attempt.progress is not Progress.SPLICED for one in exchanges)

    def close(self) -> None:
        """Close every connection at once."""
        for server in self._servers:
            server.close()
        self._probes.close()
        self._samples.close()
        for client in list(self._context.clients):
            client.leave()
        for rest in list(self._context.leaving):
            rest.end()
        self._pools.close()
