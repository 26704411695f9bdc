"""A client of the Docker Engine API on a Unix socket.

Docker and Podman speak HTTP/1.1 there. Each request has a connection of its own; a command
inside a container takes its connection over, in both directions.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from sokovan.ports.runtime import RuntimeFailure

CONNECT_S = 60.0
# An engine that removes or starts containers on a slow disk may take long.
ANSWER_S = 120.0
READ_BYTES = 1 << 16
HEAD_BYTES_MAX = 1 << 16
ANSWER_BYTES_MAX = 64 << 20
# The newest version of the API that this client was written for; older engines get their own.
VERSION_MAX = (1, 41)
NO_CONTENT = 204
NOT_FOUND = 404
CONFLICT = 409
FAILED = 400
SCHEME = "unix://"


class EngineUnavailable(RuntimeFailure):
    """The container engine does not answer."""

    code = "engine-unavailable"
    hint = "start Docker or Podman (`podman system service`), or name its socket with --engine; see `sokovan doctor`"


class EngineRefusal(RuntimeFailure):
    """The container engine refused a request."""

    code = "engine-refusal"
    hint = "see the message of the engine"

    def __init__(self, status: int, problem: str) -> None:
        self.status, self.problem = status, problem
        super().__init__(f"the container engine answers {status}: {problem}")


@dataclass(frozen=True, slots=True)
class _Request:
    """A request; bytes as a body are an archive, everything else is JSON."""

    method: str
    target: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> bytes:
        """The same as it is sent."""
        body = self.body
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "application/x-tar" if isinstance(body, bytes) else "application/json"
        fields = {"Host": "engine", "Connection": "close", **self.headers}
        fields |= {"Content-Type": kind, "Content-Length": str(len(content))}
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join((*lines, "", "")).encode() + content


@dataclass(slots=True)
class _Head:
    """The status and headers of an answer, in lower case."""

    status: int
    headers: dict[str, str]


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def path_of(*parts: str) -> str:
    """A path of the API from its parts, each of them quoted."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


@dataclass(slots=True)
class EngineClient:
    """Requests to one engine; `socket` is its path."""

    socket: Path
    _version: str = field(default="", init=False)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Any:
        """The content of an answer.

        Raises EngineUnavailable, and EngineRefusal for a status from 400 on.
        """
        target = await self._target(path, query)
        try:
            async with asyncio.timeout(ANSWER_S), self._asked(_Request(method, target, body)) as (head, reader):
                pieces = _body(head, reader, bytes_max=ANSWER_BYTES_MAX)
                content = b"" if method == "HEAD" else b"".join([piece async for piece in pieces])
        except TimeoutError as error:
            raise EngineUnavailable(f"{self.socket} has not answered {method} {path} for {ANSWER_S:.0f} s") from error
        return json.loads(content) if content.strip() else None

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, query: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The content of a long answer, as it arrives; the same errors."""
        request = _Request(method, await self._target(path, query), headers=headers or {})
        async with self._asked(request) as (head, reader):
            yield _body(head, reader)

    async def taken_over(self, path: str, body: Any) -> Streams:
        """A connection that the engine connects with a command. The caller closes it."""
        headers = {"Upgrade": "tcp", "Connection": "Upgrade"}
        request = _Request("POST", await self._target(path, None), body, headers)
        streams = await self._connected()
        try:
            streams[1].write(request.text())
            await _require_success(await _head(streams[0]), streams[0])
        except BaseException:
            streams[1].close()
            raise
        return streams

    async def _target(self, path: str, query: Mapping[str, str] | None) -> str:
        """A path with the version of the API that both sides know."""
        if not self._version:
            async with self._asked(_Request("GET", "/version")) as (head, reader):
                content = b"".join([piece async for piece in _body(head, reader, bytes_max=ANSWER_BYTES_MAX)])
                said = json.loads(content)
            own = min(_numbers(said.get("ApiVersion", "")) or VERSION_MAX, VERSION_MAX)
            number = max(own, _numbers(said.get("MinAPIVersion", "")) or own)
            self._version = "/v{}.{}".format(*number)
        return self._version + path + (f"?{urlencode(query)}" if query else "")

    @asynccontextmanager
    async def _asked(self, request: _Request) -> AsyncIterator[tuple[_Head, asyncio.StreamReader]]:
        reader, writer = await self._connected()
        try:
            writer.write(request.text())
            await writer.drain()
            head = await _head(reader)
            await _require_success(head, reader)
            yield head, reader
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise EngineUnavailable(f"{self.socket} breaks off its answer: {error}") from error
        finally:
            writer.close()

    async def _connected(self) -> Streams:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_unix_connection(str(self.socket), limit=READ_BYTES)
        except (OSError, TimeoutError) as error:
            problem = error.strerror if isinstance(error, OSError) and error.strerror else "it takes too long"
            raise EngineUnavailable(f"no container engine answers at {self.socket}: {problem}") from error


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(map(int, parts)) if len(parts) == 2 and all(part.isdigit() for part in parts) else ()


async def _head(reader: asyncio.StreamReader) -> _Head:
    """The head of an answer. Raises ValueError for one that is none."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise ValueError(f"{first[:80]!r} is no HTTP answer")
    pairs = (line.partition(":") for line in lines if line)
    return _Head(int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs})


async def _body(head: _Head, reader: asyncio.StreamReader, *, bytes_max: int | None = None) -> AsyncIterator[bytes]:
    """The body of an answer in pieces, until its end. Raises ValueError if it is too long."""
    received = 0
    async for piece in _pieces(head, reader):
        received += len(piece)
        if bytes_max is not None and received > bytes_max:
            raise ValueError(f"the answer has more than {bytes_max} bytes")
        yield piece


async def _pieces(head: _Head, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    if head.status == NO_CONTENT:
        return
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            while size:
                piece = await reader.read(min(size, READ_BYTES))
                if not piece:
                    raise ValueError("it ends within a chunk")
                size -= len(piece)
                yield piece
            await reader.readexactly(2)
        return
    left = int(head.headers["content-length"]) if "content-length" in head.headers else None
    while left is None or left > 0:
        piece = await reader.read(READ_BYTES if left is None else min(left, READ_BYTES))
        if not piece:
            if left:
                raise ValueError("it ends early")
            return
        left = None if left is None else left - len(piece)
        yield piece


async def _require_success(head: _Head, reader: asyncio.StreamReader) -> None:
    """Raise EngineRefusal for an answer that is one."""
    if head.status < FAILED:
        return
    content = b""
    with contextlib.suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(CONNECT_S):
            content = b"".join([piece async for piece in _body(head, reader, bytes_max=HEAD_BYTES_MAX)])
    try:
        said = json.loads(content)
    except ValueError:
        said = None
    problem = str(said.get("message") or said.get("cause") or "") if isinstance(said, dict) else ""
    raise EngineRefusal(head.status, (problem or content.decode(errors="replace")).strip()[:1000] or "no reason given")
