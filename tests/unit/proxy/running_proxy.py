"""A proxy and its endpoints on real sockets, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sokovan.adapters.local.clock import SystemClock
from sokovan.proxy.accounts.usage_ledger import UsageLedger
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.proxy_server import ProxyServer
from sokovan.proxy.routing.choice import Draws
from sokovan.wire.serving.route_table import (
    EndpointEntry,
    KeyEntry,
    ProbeTerms,
    RevisionEntry,
    RouteEntry,
    TableUpdate,
)

KEY = b"ske_test"
DIGEST_KEY = "pepper"
# Generous: the machine may be busy.
LIMIT_S = 60.0
Answer = Callable[["SeenRequest", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class SeenRequest:
    """A request as an endpoint got it."""

    head: bytes
    body: bytes
    reader: asyncio.StreamReader

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n")[0]

    def field(self, name: bytes) -> bytes | None:
        for line in self.head.split(b"\r\n")[1:]:
            found, _, value = line.partition(b":")
            if found.strip().lower() == name:
                return value.strip()
        return None


def json_answer(body: bytes = b'{"ok":true}', status: bytes = b"200 OK") -> Answer:
    """An answer with a length."""

    async def answer(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        writer.write(head + body)
        await writer.drain()

    return answer


def stream_answer(events: Sequence[bytes], *, breaks_off: bool = False) -> Answer:
    """An answer of events, each in a chunk of its own; one that breaks off ends with a reset."""

    async def answer(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for event in events:
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await writer.drain()
        if breaks_off:
            writer.transport.abort()
            return
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return answer


@dataclass
class Engine:
    """An endpoint: a small HTTP server with a scripted answer."""

    answer: Answer
    port: int = 0
    requests: list[SeenRequest] = field(default_factory=list)
    connections: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    probes: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse connections and reset open ones, as a killed process does."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def refuse(self) -> None:
        """Refuse new connections; open ones stay."""
        if self._server is not None:
            self._server.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)  # before the task runs: one that is cancelled first resets its connection, too
        self._tasks.add(asyncio.get_running_loop().create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    request = await self._read(reader)
                    if request.line.startswith(b"GET /health"):
                        self.probes += 1
                        await json_answer()(request, writer)
                        continue
                    self.requests.append(request)
                    await self.answer(request, writer)
        finally:
            self._writers.discard(writer)
            self.closed.set()
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader) -> SeenRequest:
        head = await reader.readuntil(b"\r\n\r\n")
        request = SeenRequest(head, b"", reader)
        length = request.field(b"content-length")
        if length is not None:
            request.body = await reader.readexactly(int(length))
        elif request.field(b"transfer-encoding"):
            while size := int(await reader.readline(), 16):
                request.body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        return request


def endpoint_of(engine: Engine, number: int = 1, **changes: Any) -> EndpointEntry:
    values: dict[str, Any] = {
        "endpoint_id": f"k{number}.1", "revision": 1, "host": "127.0.0.1", "port": engine.port, "state": "ACTIVE",
        "secret": "replica-key", "probe": ProbeTerms(path="/health", warming_ms=50, interval_ms=60_000),
        **changes,
    }  # fmt: skip
    return EndpointEntry(**values)


def route_of(*endpoints: EndpointEntry, **changes: Any) -> RouteEntry:
    values: dict[str, Any] = {
        "deployment_id": "deployment-1", "name": "chat", "project": "default", "owner": "admin", "models": ("chat",),
        "revisions": (RevisionEntry(1),), "endpoints": endpoints, **changes,
    }  # fmt: skip
    return RouteEntry(**values)


def key_of(secret: bytes = KEY, **changes: Any) -> KeyEntry:
    digest = hmac.digest(DIGEST_KEY.encode(), secret, "sha256").hex()
    values: dict[str, Any] = {"key_id": "key-1", "digest": digest, "deployments": ("deployment-1",), **changes}
    return KeyEntry(**values)


def table_of(*routes: RouteEntry, version: int = 1, **changes: Any) -> TableUpdate:
    values: dict[str, Any] = {"digest_key": DIGEST_KEY, "keys": (key_of(),), **changes}
    return TableUpdate(epoch="e1", version=version, routes=routes, **values)


@dataclass
class RunningProxy:
    """A proxy that listens."""

    port: int
    context: ProxyContext
    server: ProxyServer

    async def send(self, raw: bytes) -> bytes:
        """Send bytes on a new connection; returns all until the proxy closes it."""
        reader, writer = await self.connect()
        try:
            writer.write(raw)
            async with asyncio.timeout(LIMIT_S):
                return await reader.read()
        finally:
            writer.transport.abort()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():  # a poll: what is waited for has no event
                await SystemClock().sleep(0.01)


@contextlib.asynccontextmanager
async def proxy_with(update: TableUpdate | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[RunningProxy]:
    """A proxy with a table, or without one; with `tls` it is encrypted."""
    loop = asyncio.get_running_loop()
    context = ProxyContext(
        loop=loop, wall_ms=SystemClock().now_ms, draws=Draws(1), ledger=UsageLedger(), log=lambda _line: None
    )
    server = ProxyServer(context, clock=SystemClock())
    listener = socket.create_server(("127.0.0.1", 0))
    await server.listen(listener, tls=tls)
    if update is not None:
        server.apply(update)
    sweeping = asyncio.create_task(server.run())
    try:
        yield RunningProxy(listener.getsockname()[1], context, server)
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
        server.close()
        await SystemClock().sleep(0)
    assert not context.exchanges, "every request ended"
    assert context.held_bytes == 0, "every kept body was freed"


@contextlib.asynccontextmanager
async def engines(*answers: Answer) -> AsyncIterator[list[Engine]]:
    """Running endpoints, one per answer."""
    started = [Engine(answer) for answer in answers]
    for engine in started:
        await engine.start()
    try:
        yield started
    finally:
        for engine in started:
            await engine.stop()


def call(
    path: str = "/v1/chat/completions", body: bytes = b'{"model":"chat"}', *, key: bytes = KEY, more: str = ""
) -> bytes:
    """A request that closes its connection after the answer."""
    head = f"POST {path} HTTP/1.1\r\nHost: gateway\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}"
    credential = b"Authorization: Bearer " + key + b"\r\n" if key else b""
    return head.encode() + credential + b"\r\n" + body


def get(path: str, *, key: bytes = KEY) -> bytes:
    """A GET that closes its connection after the answer."""
    credential = b"Authorization: Bearer " + key + b"\r\n" if key else b""
    return f"GET {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n".encode() + credential + b"\r\n"


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body_of(answer: bytes) -> bytes:
    """The body of an answer, decoded if it is chunked."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return body
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        if int(size, 16) == 0:
            break
        whole += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return whole


def code_of(answer: bytes) -> str:
    return str(json.loads(body_of(answer))["error"]["code"])
