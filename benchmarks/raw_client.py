"""An HTTP client that costs little: prebuilt requests on connections that stay open."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from benchmarks.embedded_server import Server

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class RawClient:
    """One connection to the API; requests on it follow one another."""

    def __init__(self, started: Server) -> None:
        self._address = started.url.rpartition("/")[2]
        self._token = started.token
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def connect(self) -> RawClient:
        """Open the connection."""
        host, _, port = self._address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        return self

    async def get(self, path: str) -> Any:
        """The JSON at a path below /api/v1."""
        return await self._send("GET", path, b"")

    async def post(self, path: str, body: Any) -> Any:
        """The response to a JSON body."""
        return await self._send("POST", path, json.dumps(body).encode())

    async def _send(self, method: str, path: str, body: bytes) -> Any:
        head = (
            f"{method} /api/v1{path} HTTP/1.1\r\nHost: {self._address}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(answer)
        content = await self._reader.readexactly(int(length[1])) if length else b""
        if not answer.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"{method} {path}: {answer[:40]!r} {content[:400]!r}")
        return json.loads(content)
