"""The door of a manager for its agents: a WebSocket server of its own.

Nobody gets past it without a credential that is known; whose it is, the one who admits
agents says. Few may stand inside the door before they are admitted.
Agents send no Origin, so a request with one comes from a page in somebody's browser.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.wire.frames import LINK_PATH, STREAM_PATH
from sokovan.wire.link_codec import FRAME_BYTES_MAX

BEARER = "Bearer "
PING_S = 20.0
OPEN_S = 10.0
CLOSE_S = 1.0
CREDENTIAL_CHARACTERS_MAX = 4096

_CROWDED = (HTTPStatus.SERVICE_UNAVAILABLE, "many agents knock at once; dial again in a moment")
# Strangers who knock in the wrong way are no news for the terminal of whoever runs this.
_logger = logging.getLogger("sokovan.agentlink")
_logger.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class LinkEndpoint:
    """What a request must be like to come in.

    `names` are those that this manager goes by; an address can be nobody else's name.
    `known` says whether a credential may be one at all.
    """

    agents: LinkedAgents
    names: frozenset[str]
    known: Callable[[str], bool] = bool

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """A refusal, or None for a request that may go on."""
        refusal = self.refusal(request)
        if refusal is None:
            return None
        status, words = refusal
        response = connection.respond(status, f"{words}\n")
        if status is HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def refusal(self, request: Request) -> tuple[HTTPStatus, str] | None:
        """Why a request may not go on; None if it may."""
        if not self._is_ours(request.headers.get_all("Host")):
            return HTTPStatus.MISDIRECTED_REQUEST, "this manager does not go by that name"
        if request.headers.get_all("Origin"):
            return HTTPStatus.FORBIDDEN, "this is no place for browsers"
        token = credential(request)
        if not token:
            return HTTPStatus.UNAUTHORIZED, "an agent shows its credential: Authorization: Bearer ..."
        if not self.known(token):
            return HTTPStatus.UNAUTHORIZED, "this credential opens nothing here"
        stream_id = stream_of(request.path)
        if request.path == LINK_PATH:
            return _CROWDED if self.agents.is_crowded else None
        if stream_id and self.agents.streams.is_awaited(stream_id, token):
            return None
        return HTTPStatus.NOT_FOUND, "there is nothing here"

    def _is_ours(self, hosts: list[str]) -> bool:
        if len(hosts) != 1:
            return False
        try:
            name = urlsplit(f"//{hosts[0]}").hostname or ""
        except ValueError:
            return False
        with suppress(ValueError):
            return bool(ip_address(name))
        return name in self.names


def credential(request: Request) -> str:
    """The token that a request shows; empty if it shows none."""
    given = request.headers.get_all("Authorization")
    if len(given) != 1 or not given[0].startswith(BEARER) or len(given[0]) > CREDENTIAL_CHARACTERS_MAX:
        return ""
    return given[0].removeprefix(BEARER).strip()


def stream_of(path: str) -> str:
    """The id of the stream that a path asks for; empty if it asks for none."""
    return path.removeprefix(STREAM_PATH) if path.startswith(STREAM_PATH) else ""


class SocketDuplex:
    """A Duplex on a WebSocket; a text is taken for the bytes that it is."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        """The next message; None when the peer has hung up."""
        content = await _received(self._socket)
        return content.encode() if isinstance(content, str) else content

    async def send(self, content: bytes) -> None:
        """Send a message. Raises ConnectionError when the peer has hung up."""
        await _sent(self._socket, content)


class SocketStream:
    """A Stream on a WebSocket."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket

    async def receive(self) -> bytes | str | None:
        """The next message; None when the peer has hung up."""
        return await _received(self._socket)

    async def send(self, content: bytes | str) -> None:
        """Send a message. Raises ConnectionError when the peer has hung up."""
        await _sent(self._socket, content)


async def _received(socket: ServerConnection) -> bytes | str | None:
    try:
        return await socket.recv()
    except ConnectionClosed:
        return None


async def _sent(socket: ServerConnection, content: bytes | str) -> None:
    try:
        await socket.send(content)
    except ConnectionClosed as problem:
        raise ConnectionError(str(problem)) from None


@dataclass(frozen=True, slots=True)
class LinkListener:
    """A door that is open, at `port`."""

    port: int
    server: Server


@asynccontextmanager
async def serve_links(
    agents: LinkedAgents,
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    names: Collection[str] = (),
    known: Callable[[str], bool] = bool,
) -> AsyncIterator[LinkListener]:
    """Take in agents until left; port 0 takes any that is free. Raises OSError.

    `names` are further ones that agents dial this manager by. `known` says whether a
    credential may be one at all; it must take as long for any.
    """
    door = LinkEndpoint(agents, frozenset(name.lower() for name in ("localhost", host, *names)), known)
    async with serve(
        partial(_handle, agents),
        host,
        port,
        process_request=door.answer,
        ssl=tls,
        compression=None,
        max_size=FRAME_BYTES_MAX,
        ping_interval=PING_S,
        ping_timeout=PING_S,
        open_timeout=OPEN_S,
        close_timeout=CLOSE_S,
        server_header=None,
        logger=_logger,
    ) as server:
        try:
            yield LinkListener(next(iter(server.sockets)).getsockname()[1], server)
        finally:
            agents.close()


async def _handle(agents: LinkedAgents, socket: ServerConnection) -> None:
    if socket.request is None:
        return
    stream_id = stream_of(socket.request.path)
    if not stream_id:
        await agents.serve(SocketDuplex(socket), credential(socket.request))
        return
    served = asyncio.ensure_future(agents.streams.serve(stream_id, SocketStream(socket)))
    closed = asyncio.ensure_future(socket.wait_closed())
    try:
        await asyncio.wait({served, closed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (served, closed):
            task.cancel()
