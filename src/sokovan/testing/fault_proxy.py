"""A proxy for PostgreSQL that injects faults into commits.

It parses the protocol, so that it can close a connection before COMMIT reaches the
server, or after the server has committed and before the client gets the response. It
supports clients that send COMMIT as a simple query, like asyncpg.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from enum import StrEnum, auto
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from sokovan.domain.errors import SokovanError
from sokovan.testing.servers.process import LOOPBACK

_LENGTH = 4
_STARTUP_HEAD = 8
_WITHOUT_ENCRYPTION = b"N"
# Request codes of TLS and GSSAPI encryption, in place of the protocol version.
_ENCRYPTION = frozenset({80877103, 80877104})
_QUERY, _READY = b"Q", b"Z"


class CommitFault(StrEnum):
    """The fate of a COMMIT whose connection is closed.

    LOST: the server never receives it, and rolls back. UNANSWERED: the server commits,
    and its response is lost. HELD: the server receives it at `release`, possibly after
    the client has begun to retry.
    """

    LOST = auto()
    UNANSWERED = auto()
    HELD = auto()


class FaultNotArmed(SokovanError):
    """`release` was called while no commit is held."""

    code = "fault-not-armed"
    hint = "arm CommitFault.HELD and wait for `struck` before releasing"


class FaultProxy:
    """Clients connect to this proxy, which makes a commit fail."""

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._server_url = server_url
        self._server = (parts.hostname or LOOPBACK, parts.port or 5432)
        self.port = 0
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._armed: CommitFault | None = None
        self._struck = asyncio.Event()
        self._held: asyncio.Future[bool] | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()

    @property
    def url(self) -> str:
        """The server's URL through this proxy."""
        parts = urlsplit(self._server_url)
        credentials, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{credentials}{at}{LOOPBACK}:{self.port}"))

    async def start(self) -> None:
        """Listen on a free port, and on the same port when started again."""
        self._listener = await asyncio.start_server(self._serve, LOOPBACK, self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Close all connections and refuse new ones, like a stopped server."""
        if self._listener is not None:
            self._listener.close()
            self.cut()
            await self._listener.wait_closed()
            self._listener = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.resume()
        await self.close()

    def arm(self, fault: CommitFault) -> None:
        """Inject this fault into the next COMMIT."""
        self._armed = fault
        self._struck.clear()

    async def struck(self) -> None:
        """Return once the armed fault has happened."""
        await self._struck.wait()

    def release(self, *, committed: bool = True) -> None:
        """Forward the held COMMIT, or drop it. Raises FaultNotArmed."""
        if self._held is None or self._held.done():
            raise FaultNotArmed("no commit is held")
        self._held.set_result(committed)

    def cut(self) -> None:
        """Close all connections now."""
        for link in tuple(self._links):
            link.end()

    def stall(self) -> None:
        """Forward nothing, while connections stay open and new ones are accepted."""
        self._flowing.clear()

    def resume(self) -> None:
        """End the stall."""
        self._flowing.set()

    def _take_fault(self) -> CommitFault | None:
        """The fault for the current COMMIT; it is injected once."""
        fault, self._armed = self._armed, None
        if fault is CommitFault.HELD:
            self._held = asyncio.get_running_loop().create_future()
        return fault

    def _strike(self) -> None:
        """Wake the waiters of `struck`."""
        self._struck.set()

    async def _is_released(self) -> bool:
        """Wait for `release`; returns whether to forward the COMMIT."""
        return self._held is not None and await self._held

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._server)
        except OSError:
            writer.close()
            return
        link = _Link(self, client=(reader, writer), server=(server_reader, server_writer))
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)


_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    """One client and its connection to the server."""

    def __init__(self, proxy: FaultProxy, *, client: _Ends, server: _Ends) -> None:
        self._proxy = proxy
        self._client_reader, self._client = client
        self._server_reader, self._server = server
        self._drop_responses = False
        self._committed = asyncio.Event()

    async def run(self) -> None:
        """Forward messages in both directions until one side or a fault ends it."""
        directions = [asyncio.ensure_future(self._to_server()), asyncio.ensure_future(self._to_client())]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            self.end()

    def end(self) -> None:
        """Abort both connections; unsent data is lost."""
        for writer in (self._client, self._server):
            writer.transport.abort()

    async def _to_server(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            async for message in self._from_client():
                fault = self._proxy._take_fault() if _is_commit(message) else None
                if fault is not None:
                    await self._fail(fault, message)
                    return
                await self._proxy._flowing.wait()
                self._server.write(message)
                await self._server.drain()

    async def _fail(self, fault: CommitFault, commit: bytes) -> None:
        self._drop_responses = True
        if fault is CommitFault.HELD:
            self._client.transport.abort()
            self._proxy._strike()
        if fault is CommitFault.UNANSWERED or (fault is CommitFault.HELD and await self._proxy._is_released()):
            self._server.write(commit)
            await self._server.drain()
            await self._committed.wait()
        self.end()
        self._proxy._strike()

    async def _to_client(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                message = await _message(self._server_reader)
                if self._drop_responses:
                    if message.startswith(_READY):
                        self._committed.set()
                    continue
                await self._proxy._flowing.wait()
                self._client.write(message)
                await self._client.drain()

    async def _from_client(self) -> AsyncIterator[bytes]:
        """The client's messages; a request for encryption is declined, so that they are readable."""
        while True:
            head = await self._client_reader.readexactly(_STARTUP_HEAD)
            if int.from_bytes(head[_LENGTH:]) not in _ENCRYPTION:
                break
            self._client.write(_WITHOUT_ENCRYPTION)
        yield head + await self._client_reader.readexactly(int.from_bytes(head[:_LENGTH]) - _STARTUP_HEAD)
        while True:
            yield await _message(self._client_reader)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """One message: its kind, its length without the kind, its content."""
    head = await reader.readexactly(1 + _LENGTH)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - _LENGTH)


def _is_commit(message: bytes) -> bool:
    return message.startswith(_QUERY) and message[1 + _LENGTH :].strip(b"\0; \n").upper() == b"COMMIT"
