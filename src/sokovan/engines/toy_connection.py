"""One HTTP/1.1 connection of the toy engine, on the streams of asyncio.

Strict and small: heads and bodies are bounded, and a request that is not understood ends
the connection with an error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HEAD_MAX = 64 << 10
BODY_MAX = 64 << 20
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class MalformedRequest(Exception):
    """A request that is not HTTP/1.1, or beyond the limits."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


@dataclass(frozen=True)
class ToyRequest:
    """One request: its path without the query, headers in small letters, and the body."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def keeps_alive(self) -> bool:
        """Whether the client may send another request on the connection."""
        return self.headers.get("connection", "").lower() != "close"


class ToyConnection:
    """Reads requests and writes responses, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> ToyRequest | None:
        """The next request; None after the last. Raises MalformedRequest."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as error:
            raise MalformedRequest(413, f"the head is larger than {HEAD_MAX} bytes") from error
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, target, version = [*first.split(" "), "", ""][:3]
        if version != "HTTP/1.1" or not target.startswith("/"):
            raise MalformedRequest(400, "not a request of HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                raise MalformedRequest(400, "a header without a name")
            headers[name.lower()] = value.strip()
        if headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            body = await self._body(headers)
        except asyncio.IncompleteReadError as error:
            raise MalformedRequest(400, "the body ends too early") from error
        return ToyRequest(method, target.partition("?")[0], headers, body)

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._chunks()
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise MalformedRequest(400, "a length that is not a number")
        if int(length) > BODY_MAX:
            raise MalformedRequest(413, f"the body is larger than {BODY_MAX} bytes")
        return await self._reader.readexactly(int(length))

    async def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            line = (await self._reader.readuntil(b"\r\n")).partition(b";")[0].strip()
            try:
                size = int(line, 16)
            except ValueError as error:
                raise MalformedRequest(400, "a chunk without a size") from error
            if not 0 <= size <= BODY_MAX - len(body):
                raise MalformedRequest(413, f"the body is larger than {BODY_MAX} bytes")
            body += await self._reader.readexactly(size)
            await self._reader.readuntil(b"\r\n")
            if size == 0:
                return bytes(body)

    async def answer(self, status: int, body: dict[str, Any] | str, headers: Mapping[str, str] | None = None) -> None:
        """Write a whole response; a text is plain, anything else JSON."""
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        kind = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
        given = {"content-type": kind, "content-length": str(len(content)), **(headers or {})}
        self._writer.write(_head(status, given) + content)
        await self._writer.drain()

    async def begin_events(self) -> None:
        """Write the head of a stream of events."""
        given = {"content-type": "text/event-stream", "cache-control": "no-cache", "transfer-encoding": "chunked"}
        self._writer.write(_head(200, given))
        await self._writer.drain()

    async def event(self, name: str, body: dict[str, Any] | str) -> None:
        """Write one event of a stream, as one chunk."""
        text = body if isinstance(body, str) else json.dumps(body)
        event = f"{f'event: {name}' + chr(10) if name else ''}data: {text}\n\n".encode()
        self._writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await self._writer.drain()

    async def end_events(self) -> None:
        """Write the end of a stream."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def gone(self) -> None:
        """Return when the client has left."""
        while not self._reader.at_eof():
            await self._reader.read(HEAD_MAX)

    def require_client(self) -> None:
        """Require that the client has not closed its side. Raises ConnectionResetError."""
        if self._reader.at_eof():
            raise ConnectionResetError

    def abort(self) -> None:
        """Close at once, whatever was not sent."""
        self._writer.transport.abort()

    def close(self) -> None:
        """Close after what was written is sent."""
        self._writer.close()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {REASONS[status]}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join((*lines, "", "")).encode("latin-1")
