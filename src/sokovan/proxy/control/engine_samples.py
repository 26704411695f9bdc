"""Asks engines how many requests they have, while their deployment has some.

A proxy knows its own requests only. What other proxies have sent to an engine, and what
waits inside it, is known to the engine alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from sokovan.proxy.context import ProxyContext
from sokovan.proxy.endpoint_connections import Dialler
from sokovan.proxy.http.chunks import ChunkDecoder
from sokovan.proxy.http.heads import END_OF_HEAD, HEAD_BYTES_MAX, BadHead, read_response_head
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.proxy.routing.engine_counts import EngineCounts, engine_counts
from sokovan.wire.serving.route_table import EndpointEntry

EVERY_MS = 1_000
# After an answer without counts: the engine may have no metrics.
REFUSED_MS = 30_000
LIMIT_S = 1.0
METRICS_MAX = 1 << 20
SAMPLES_MAX = 64


class EngineSamples:
    """Starts the samples that are due; `due` is called several times a second."""

    def __init__(self, context: ProxyContext) -> None:
        self._context = context
        self._next_ms: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def due(self) -> None:
        """Ask each engine whose deployment has requests and whose time has come."""
        now_ms, known = self._context.now_ms(), set[str]()
        for route in self._context.table.routes.values():
            known.update(route.endpoints)
            if not route.in_flight and not route.queue.length:
                continue
            for endpoint_id, endpoint in route.endpoints.items():
                entry = endpoint.entry
                if not entry.probe.metrics_path or entry.state != "ACTIVE" or len(self._tasks) >= SAMPLES_MAX:
                    continue
                if now_ms >= self._next_ms.get(endpoint_id, 0):
                    self._start(endpoint)
        for gone in self._next_ms.keys() - known:
            del self._next_ms[gone]

    def _start(self, endpoint: EndpointState) -> None:
        # The next one starts after this one has ended at the earliest.
        self._next_ms[endpoint.entry.endpoint_id] = 1 << 62
        task = asyncio.create_task(self._sample(endpoint))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sample(self, endpoint: EndpointState) -> None:
        context, entry = self._context, endpoint.entry
        counts, pause_ms = None, EVERY_MS
        try:
            async with asyncio.timeout(LIMIT_S):
                counts = await sample(
                    entry, lambda: endpoint.owns(context.listeners(entry.port)), dialler=context.dialler
                )
                pause_ms = REFUSED_MS if counts is None else EVERY_MS
        except (TimeoutError, OSError):
            # Its health is for probes to judge: no more than the sample is missing.
            pass
        now_ms = context.now_ms()
        if counts is not None:
            endpoint.engine.sampled(now_ms, counts, own=endpoint.outstanding)
        self._next_ms[entry.endpoint_id] = now_ms + pause_ms

    def close(self) -> None:
        """Cancel the samples under way."""
        for task in self._tasks:
            task.cancel()


async def sample(
    entry: EndpointEntry, owned: Callable[[], bool] = lambda: True, *, dialler: Dialler | None = None
) -> EngineCounts | None:
    """Ask an engine once; None if it does not say. Raises OSError.

    Nothing is sent unless the port is `owned` by its kernel.
    """
    reader, writer = await (dialler or Dialler()).streams(entry, limit=HEAD_BYTES_MAX)
    try:
        if not owned():
            return None
        secret = f"authorization: Bearer {entry.secret}\r\n" if entry.secret else ""
        host = f"host: {entry.host}:{entry.port}\r\n"
        writer.write(f"GET {entry.probe.metrics_path} HTTP/1.1\r\n{host}{secret}connection: close\r\n\r\n".encode())
        body = await _body(reader)
        return None if body is None else engine_counts(body)
    except (BadHead, EOFError, asyncio.LimitOverrunError):
        return None
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _body(reader: asyncio.StreamReader) -> bytes | None:
    """The body of a response with status 200; None for others, and for one that is too long.

    Raises BadHead, EOFError, LimitOverrunError.
    """
    block = await reader.readuntil(END_OF_HEAD)
    head = read_response_head(block[:-2], method=b"GET")
    if head.status != 200 or (head.length or 0) > METRICS_MAX:
        return None
    if head.length is not None:
        return await reader.readexactly(head.length)
    decoder = ChunkDecoder() if head.chunked else None
    pieces: list[bytes] = []
    size = 0
    while not (decoder is not None and decoder.ended):
        data = await reader.read(HEAD_BYTES_MAX)
        size += len(data)
        if not data or size > METRICS_MAX:
            return b"".join(pieces) if not data and decoder is None else None
        pieces += [data] if decoder is None else decoder.feed(data)
    return b"".join(pieces)
