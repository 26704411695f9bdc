"""The WebSocket server that agents connect to.

Connections need a known credential; the registry decides which agent it belongs to. The
number of connections that wait for admission is limited. Agents send no Origin header,
so that a request with one comes from a web page and is refused.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.upload_stream import send_upload
from sokovan.wire.frames import LINK_PATH, STREAM_PATH, UPLOAD_PATH
from sokovan.wire.link_codec import FRAME_BYTES_MAX

BEARER = "Bearer "
PING_S = 20.0
# For TLS, and for the request. While many agents link, a manager is late with each of them, and one that it gives up
# begins anew.
OPEN_S = 60.0
# Connections that wait for the event loop. The system drops further ones, and they try again after seconds.
BACKLOG = 1024
CLOSE_S = 1.0
# How many agents a manager admits in a second or less, on a slow machine.
ADMITTED_PER_S = 100
CREDENTIAL_CHARACTERS_MAX = 4096

_FULL = (HTTPStatus.SERVICE_UNAVAILABLE, "too many agents are connecting; retry later")
# Invalid connection attempts are not logged to the operator's terminal.
_logger = logging.getLogger("sokovan.agentlink")
_logger.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class LinkEndpoint:
    """Checks requests before they become connections.

    `names` are the host names of this manager; IP addresses are always accepted.
    `known` says whether a credential can be valid at all.
    """

    agents: LinkedAgents
    names: frozenset[str]
    known: Callable[[str], bool] = bool

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """The response to a refused request; None if it is accepted."""
        refusal = self.refusal(request)
        if refusal is None:
            return None
        status, message = refusal
        response = connection.respond(status, f"{message}\n")
        if status is HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = "Bearer"
        return with_delay(response, self.agents)

    def refusal(self, request: Request) -> tuple[HTTPStatus, str] | None:
        """The reason for refusing a request; None if it is accepted."""
        if not self._is_ours(request.headers.get_all("Host")):
            return HTTPStatus.MISDIRECTED_REQUEST, "this manager does not have that host name"
        if request.headers.get_all("Origin"):
            return HTTPStatus.FORBIDDEN, "requests from web pages are not accepted"
        token = credential(request)
        if not token:
            return HTTPStatus.UNAUTHORIZED, "a credential is required: Authorization: Bearer ..."
        if not self.known(token):
            return HTTPStatus.UNAUTHORIZED, "this credential is not valid"
        return path_refusal(self.agents, request.path, token)

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


def path_refusal(agents: LinkedAgents, path: str, token: str) -> tuple[HTTPStatus, str] | None:
    """The reason for refusing a path to an agent; None if it is accepted."""
    stream_id = stream_of(path)
    if upload_of(path) and agents.uploads is not None:
        return None
    if path == LINK_PATH:
        return _FULL if agents.is_full else None
    if stream_id and agents.streams.is_expected(stream_id, token):
        return None
    return HTTPStatus.NOT_FOUND, "not found"


def with_delay(response: Response, agents: LinkedAgents) -> Response:
    """The response, which names the time to come again to an agent if too many wait."""
    if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = str(1 + len(agents.unadmitted) // ADMITTED_PER_S)
    return response


def credential(request: Request) -> str:
    """The bearer token of a request; empty if it has none."""
    given = request.headers.get_all("Authorization")
    if len(given) != 1 or not given[0].startswith(BEARER) or len(given[0]) > CREDENTIAL_CHARACTERS_MAX:
        return ""
    return given[0].removeprefix(BEARER).strip()


def stream_of(path: str) -> str:
    """The id of the stream in a path; empty if it is not a stream's path."""
    return path.removeprefix(STREAM_PATH) if path.startswith(STREAM_PATH) else ""


def upload_of(path: str) -> str:
    """The reference of the upload in a path; empty if it is not an upload's path."""
    return path.removeprefix(UPLOAD_PATH) if path.startswith(UPLOAD_PATH) else ""


class SocketDuplex:
    """A Duplex on a WebSocket; text messages are received as bytes."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        """The next message; None when the peer has disconnected."""
        content = await _received(self._socket)
        return content.encode() if isinstance(content, str) else content

    async def send(self, content: bytes) -> None:
        """Send a message. Raises ConnectionError when the peer has disconnected."""
        await _sent(self._socket, content)

    async def ping(self) -> None:
        """Return once the peer has answered. Raises ConnectionError."""
        try:
            await (await self._socket.ping())
        except ConnectionClosed as problem:
            raise ConnectionError(str(problem)) from None


class SocketStream:
    """A Stream on a WebSocket."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket

    async def receive(self) -> bytes | str | None:
        """The next message; None when the peer has disconnected."""
        return await _received(self._socket)

    async def send(self, content: bytes | str) -> None:
        """Send a message. Raises ConnectionError when the peer has disconnected."""
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


class ConnectionBounds(Protocol):
    """Counts connections and closes those that take the room of others."""

    def admit(self, link: asyncio.Transport, address: str) -> bool:
        """Admit a new connection, or close it."""

    def serve(self, link: asyncio.Transport) -> None:
        """Its handshake is complete."""

    def release(self, link: asyncio.Transport) -> None:
        """The connection has ended."""


class _BoundedConnection(ServerConnection):
    """A connection that is counted from its first moment, before any handshake."""

    def __init__(self, *args: Any, bounds: ConnectionBounds, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bounds = bounds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._bounds.admit(self.transport, str(self.remote_address[0]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._bounds.release(self.transport)
        super().connection_lost(exc)


@dataclass(frozen=True, slots=True)
class LinkAccess:
    """The names, credentials and number of connections that are accepted.

    `names` are further host names of this manager. `known` says whether a credential can
    be valid at all; it must take constant time.
    """

    names: Collection[str] = ()
    known: Callable[[str], bool] = bool
    bounds: ConnectionBounds | None = None


@dataclass(frozen=True, slots=True)
class LinkListener:
    """A listening server at `port`."""

    port: int
    server: Server


@asynccontextmanager
async def serve_links(
    agents: LinkedAgents,
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    access: LinkAccess | None = None,
) -> AsyncIterator[LinkListener]:
    """Accept agents until left; port 0 uses any free port. Raises OSError."""
    access = access or LinkAccess()
    bounds = access.bounds
    door = LinkEndpoint(agents, frozenset(name.lower() for name in ("localhost", host, *access.names)), access.known)
    handle = partial(_serve_agent, agents)
    async with serve_sockets(handle, door.answer, host=host, port=port, tls=tls, bounds=bounds) as listener:
        try:
            yield listener
        finally:
            agents.close()


@asynccontextmanager
async def serve_sockets(
    handle: Callable[[ServerConnection], Awaitable[None]],
    answer: Callable[[ServerConnection, Request], Response | None],
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    bounds: ConnectionBounds | None,
) -> AsyncIterator[LinkListener]:
    """Accept WebSockets until left. Raises OSError.

    `answer` gives the response to a refused request.
    """
    async with serve(
        partial(_handle, handle, bounds),
        host,
        port,
        process_request=answer,
        ssl=tls,
        ssl_handshake_timeout=OPEN_S if tls is not None else None,
        compression=None,
        max_size=FRAME_BYTES_MAX,
        ping_interval=PING_S,
        ping_timeout=PING_S,
        open_timeout=OPEN_S,
        backlog=BACKLOG,
        close_timeout=CLOSE_S,
        server_header=None,
        logger=_logger,
        create_connection=None if bounds is None else cast("Any", partial(_BoundedConnection, bounds=bounds)),
    ) as server:
        yield LinkListener(next(iter(server.sockets)).getsockname()[1], server)


async def _handle(
    handle: Callable[[ServerConnection], Awaitable[None]], bounds: ConnectionBounds | None, socket: ServerConnection
) -> None:
    if bounds is not None:
        bounds.serve(socket.transport)
    await handle(socket)


async def _serve_agent(agents: LinkedAgents, socket: ServerConnection) -> None:
    if socket.request is not None:
        await serve_agent(agents, socket, socket.request.path, credential(socket.request))


async def serve_agent(agents: LinkedAgents, socket: ServerConnection, path: str, token: str) -> None:
    """Serve a link, a stream or an upload to an agent with this credential."""
    reference = upload_of(path)
    if reference and agents.uploads is not None:
        await send_upload(SocketStream(socket), agents.uploads, reference)
        return
    stream_id = stream_of(path)
    if not stream_id:
        await agents.serve(SocketDuplex(socket), token)
        return
    served = asyncio.ensure_future(agents.streams.serve(stream_id, SocketStream(socket)))
    closed = asyncio.ensure_future(socket.wait_closed())
    try:
        await asyncio.wait({served, closed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (served, closed):
            task.cancel()
