"""Checks the health of endpoints: GET of a path, or a TCP connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from sokovan.proxy.connections.exchange import serve_waiting
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.control.smoke_requests import FOREIGN_LISTENER, smoke
from sokovan.proxy.endpoint_connections import NO_AUTHORITY, NOT_HERE, Dialler
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.proxy.routing.route_state import RouteState
from sokovan.wire.serving.route_table import EndpointEntry

# Probes under way at once.
PROBES_MAX = 256
_RESPONSE_MAX = 4096
_FAILED = "the probe failed: "


class Probes:
    """Starts the probes that are due; `due` is called several times a second."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context
        self._next_ms: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def due(self) -> None:
        """Start a probe for each endpoint whose time has come."""
        now_ms, known = self._context.now_ms(), set()
        for route in self._context.table.routes.values():
            for endpoint in route.endpoints.values():
                known.add(endpoint.entry.endpoint_id)
                if endpoint.entry.state != "DRAINING" and len(self._tasks) < PROBES_MAX:
                    self._start(route, endpoint, now_ms)
        for gone in self._next_ms.keys() - known:
            del self._next_ms[gone]

    def _start(self, route: RouteState[Any], endpoint: EndpointState, now_ms: int) -> None:
        entry = endpoint.entry
        if now_ms < self._next_ms.get(entry.endpoint_id, 0):
            return
        # The next one starts after this one has ended at the earliest.
        self._next_ms[entry.endpoint_id] = 1 << 62
        task = asyncio.create_task(self._probe(route, endpoint))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _probe(self, route: RouteState[Any], endpoint: EndpointState) -> None:
        entry, begun_ms = endpoint.entry, self._context.now_ms()
        try:
            async with asyncio.timeout(entry.probe.timeout_ms / 1000):
                error = await probe(entry, self._owned(endpoint), self._context.dialler)
        except TimeoutError:
            # An engine at full load may not answer a probe; one that sent tokens during the probe is well, however late
            # the time-out comes itself.
            error = "" if endpoint.last_byte_ms >= begun_ms and endpoint.outstanding else "the probe timed out"
        except OSError as refused:
            error = f"{_FAILED}{refused.strerror or refused}"
        if not error and endpoint.smoke_due:
            error = await smoke(entry, owned=self._owned(endpoint), dialler=self._context.dialler)
            endpoint.smoke_answered(error)
        if error.endswith((NOT_HERE, NO_AUTHORITY)) and endpoint.last_error != error:
            self._context.log(f"{route.entry.name} is not served here: {error.removeprefix(_FAILED)}")
        now_ms = self._context.now_ms()
        endpoint.probed(now_ms, ok=not error, error=error)
        self._next_ms[entry.endpoint_id] = now_ms + _pause_ms(endpoint, now_ms)
        if not error:
            serve_waiting(route)

    def _owned(self, endpoint: EndpointState) -> Callable[[], bool]:
        return lambda: endpoint.owns(self._context.listeners(endpoint.entry.port))

    def close(self) -> None:
        """Cancel the probes under way."""
        for task in self._tasks:
            task.cancel()


async def probe(entry: EndpointEntry, owned: Callable[[], bool] = lambda: True, dialler: Dialler | None = None) -> str:
    """Probe an endpoint once; returns the problem, empty if none. Raises OSError.

    Nothing is sent unless the port is `owned` by its kernel.
    """
    reader, writer = await (dialler or Dialler()).streams(entry, limit=_RESPONSE_MAX)
    try:
        if not owned():
            return FOREIGN_LISTENER
        if not entry.probe.path:
            return ""
        secret = f"authorization: Bearer {entry.secret}\r\n" if entry.secret else ""
        host = f"host: {entry.host}:{entry.port}\r\n"
        writer.write(f"GET {entry.probe.path} HTTP/1.1\r\n{host}{secret}connection: close\r\n\r\n".encode())
        return _problem_of(await reader.read(_RESPONSE_MAX))
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _pause_ms(endpoint: EndpointState, now_ms: int) -> int:
    """The time until the next probe.

    After a failure it follows soon: requests may wait at an endpoint that has stopped.
    """
    terms, well = endpoint.entry.probe, not endpoint.ejection.active(now_ms) and not endpoint.health.failures
    settled = endpoint.entry.state == "ACTIVE" and well
    return max(1, terms.interval_ms if settled else min(terms.warming_ms, terms.interval_ms))


def _problem_of(response: bytes) -> str:
    words = response[:64].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        return "the probe got no HTTP response"
    return "" if 200 <= int(words[1]) < 400 else f"the probe got status {int(words[1])}"
