"""A transport that sends what is written in one turn of the event loop at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

# More is sent without waiting for the end of the turn, so that the limits of the transport's buffer hold.
GATHERED_MAX = 64 << 10


class ResponseWrites:
    """A transport whose writes are gathered until the end of the turn.

    The server writes the head and the body of a response separately. Each would be a system
    call, which takes longer than what the response needs otherwise.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send these bytes at the end of the turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > GATHERED_MAX:
            self._flush()

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Send all parts at the end of the turn."""
        self.write(b"".join(parts))

    def close(self) -> None:
        """Send what was written, and close the connection."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection without sending what is left."""
        self._drop()
        self._transport.abort()

    def _flush(self) -> None:
        parts = self._parts
        self._drop()
        if parts and not self._transport.is_closing():
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def _drop(self) -> None:
        self._parts, self._size = [], 0
