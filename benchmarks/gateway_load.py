"""Load on a gateway at a fixed rate, in a thread of its own, and how its requests ended."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import OK
from urllib.parse import urlsplit

from benchmarks.embedded_server import clock, milliseconds, percentile
from sokovan.adapters.local.clock import SystemClock

SLEEP = SystemClock().sleep
# A request that takes longer counts as failed.
LIMIT_S = 120.0
LINE_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A deployment behind a gateway, and a key for it."""

    url: str
    model: str
    key: str

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the gateway."""
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 80

    def request(self, *, stream: bool, tokens: int | None = None) -> bytes:
        """A chat request."""
        body = {"model": self.model, "messages": [{"role": "user", "content": "hello"}], "stream": stream}
        content = json.dumps(body if tokens is None else {**body, "max_tokens": tokens}).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {self.key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content


@dataclass(slots=True)
class Ends:
    """How requests ended.

    `cut` are streams that had begun and did not end; they count as failed too.
    """

    seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    failed_at: list[float] = field(default_factory=list)
    failed_seconds: list[float] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """All requests without a whole answer of status 200."""
        return sum(self.failures.values())

    @property
    def total(self) -> int:
        """All requests that ended."""
        return len(self.seconds) + self.failed

    def fail(self, cause: str, since: float, *, begun: bool = False) -> None:
        """Count a failure of a request that was sent at `since`."""
        self.failures[cause] += 1
        self.cut += begun
        self.failed_at.append(clock())
        self.failed_seconds.append(clock() - since)

    def figures(self) -> dict[str, object]:
        """The figures of a case."""
        times = self.seconds or [0.0]
        return {
            "failed": self.failed,
            "total": self.total,
            **({"streams cut": self.cut} if self.cut else {}),
            **({"causes": dict(self.failures)} if self.failures else {}),
            **({"failed within ms": milliseconds(max(self.failed_seconds))} if self.failures else {}),
            "p50 ms": milliseconds(percentile(times, 50)),
            "p99 ms": milliseconds(percentile(times, 99)),
            "max ms": milliseconds(max(times)),
        }


class Broken(Exception):
    """An answer that is not a whole one of status 200; `begun`: it was a stream that had begun."""

    def __init__(self, cause: str, *, begun: bool = False) -> None:
        super().__init__(cause)
        self.begun = begun


class Connections:
    """Connections that are kept between requests."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, data: bytes) -> bytes:
        """The body of an answer. Raises Broken, OSError."""
        reader, writer = self._kept() or await self.opened()
        kept = False
        try:
            writer.write(data)
            body = await answer(reader)
            kept = True
            return body
        finally:
            if kept:
                self._idle.append((reader, writer))
            else:
                writer.transport.abort()

    def _kept(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection that is still open, as the pools of clients give it."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not writer.is_closing() and not reader.at_eof() and reader.exception() is None:
                return reader, writer
            writer.transport.abort()
        return None

    async def opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection."""
        return await asyncio.open_connection(*self._target.address, limit=LINE_MAX)

    def close(self) -> None:
        """Close all."""
        for _, writer in self._idle:
            writer.transport.abort()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read one answer to its end. Raises Broken."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        raise Broken("closed" if not error.partial else "half a head") from None
    status = int(head.split(b" ", 2)[1])
    fields = head.lower()
    chunked = b"transfer-encoding: chunked" in fields
    try:
        if chunked:
            body = await _chunks(reader)
        else:
            length = int(fields.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            body = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise Broken("cut", begun=status == OK) from None
    if status != OK:
        with suppress(ValueError, KeyError, TypeError):
            raise Broken(f"{status} {json.loads(body)['error']['code']}")
        raise Broken(str(status))
    if chunked and not body.rstrip().endswith(b"[DONE]"):
        raise Broken("stream without its end", begun=True)
    return body


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readline() or b"x", 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return b"".join(parts)


async def send(connections: Connections, data: bytes, ends: Ends) -> bytes:
    """Send one request, and count how it ended; its body, empty if it failed."""
    begun = clock()
    try:
        async with asyncio.timeout(LIMIT_S):
            body = await connections.ask(data)
    except Broken as error:
        ends.fail(str(error), begun, begun=error.begun)
    except TimeoutError:
        ends.fail("no answer in time", begun)
    except (OSError, ValueError) as error:
        ends.fail(type(error).__name__, begun)
    else:
        ends.seconds.append(clock() - begun)
        return body
    return b""


@dataclass(slots=True)
class Load:
    """Requests that come at a fixed rate, whether those before are answered or not."""

    target: Target
    per_second: int
    streams_percent: int = 30
    ends: Ends = field(default_factory=Ends)
    stopped: threading.Event = field(default_factory=threading.Event)

    async def run(self) -> None:
        """Send until stopped, then wait for what is under way."""
        connections, tasks, number, begun = Connections(self.target), set[asyncio.Task[bytes]](), 0, clock()
        plain, stream = self.target.request(stream=False), self.target.request(stream=True)
        while not self.stopped.is_set():
            number += 1
            data = stream if number * self.streams_percent % 100 < self.streams_percent else plain
            task = asyncio.create_task(send(connections, data, self.ends))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            await SLEEP(max(0.0, begun + number / self.per_second - clock()))
        await asyncio.gather(*tasks)
        connections.close()


@contextmanager
def load(target: Target, per_second: int, streams_percent: int = 30) -> Iterator[Ends]:
    """Load for as long as the context is open; afterwards every request has ended."""
    running = Load(target, per_second, streams_percent)
    thread = threading.Thread(target=lambda: asyncio.run(running.run()), daemon=True)
    thread.start()
    try:
        yield running.ends
    finally:
        running.stopped.set()
        thread.join(LIMIT_S + 10)
