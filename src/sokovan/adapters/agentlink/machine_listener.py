"""The listener for agents of other machines, with TLS and client certificates.

Without a certificate a client reads the authority's certificate and may join; all else
needs the certificate of an agent, and is served as that agent only.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.listener import ConnectionBounds, LinkListener, path_refusal, serve_agent, serve_sockets
from sokovan.wire.join_messages import (
    AUTHORITY_PATH,
    JOIN_PATH,
    MESSAGE_BYTES_MAX,
    RENEW_PATH,
    JoinReply,
    JoinRequest,
    decode_request,
    encode_join,
)
from sokovan.wire.link_codec import MalformedFrame

JOIN_S = 10.0
# Credentials of agents that presented their certificate; a token of a file has no such form.
CERTIFIED = "certificate "

# Answers a request to join from this address, or a renewal of this agent, empty if it joins.
Join = Callable[[JoinRequest, str, str], Awaitable[JoinReply]]


@dataclass(frozen=True, slots=True)
class MachineEndpoint:
    """Serves other machines; `authority` is the authority's certificate."""

    agents: LinkedAgents
    join: Join
    authority: str

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """The response to a refused request; None if it is accepted."""
        if request.path == AUTHORITY_PATH:
            return connection.respond(HTTPStatus.OK, self.authority)
        refusal = self.refusal(request, certified_agent(connection))
        return None if refusal is None else connection.respond(refusal[0], f"{refusal[1]}\n")

    def refusal(self, request: Request, agent_id: str) -> tuple[HTTPStatus, str] | None:
        """The reason for refusing a request of an agent; None if it is accepted."""
        if request.headers.get_all("Origin"):
            return HTTPStatus.FORBIDDEN, "requests from web pages are not accepted"
        if request.path == JOIN_PATH:
            return None
        if not agent_id:
            return HTTPStatus.UNAUTHORIZED, "a certificate is required: join this machine with sokovan agent join"
        if request.path == RENEW_PATH:
            return None
        return path_refusal(self.agents, request.path, CERTIFIED + agent_id)

    async def serve(self, socket: ServerConnection) -> None:
        """Serve an accepted connection until it ends."""
        if socket.request is None:
            return
        path, agent_id = socket.request.path, certified_agent(socket)
        if path not in {JOIN_PATH, RENEW_PATH}:
            await serve_agent(self.agents, socket, path, CERTIFIED + agent_id)
            return
        with suppress(ConnectionClosed, TimeoutError, MalformedFrame):
            async with asyncio.timeout(JOIN_S):
                content = await socket.recv()
                if len(content) > MESSAGE_BYTES_MAX:
                    return
                renewing = agent_id if path == RENEW_PATH else ""
                reply = await self.join(decode_request(content), str(socket.remote_address[0]), renewing)
                await socket.send(encode_join(reply))


def certified_agent(connection: ServerConnection) -> str:
    """The agent in the certificate of a connection; empty if it presented none."""
    socket = connection.transport.get_extra_info("ssl_object")
    found = socket.getpeercert() if socket is not None else None
    names = [value for part in (found or {}).get("subject", ()) for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else ""


@asynccontextmanager
async def serve_machines(
    endpoint: MachineEndpoint, *, host: str, port: int, tls: ssl.SSLContext, bounds: ConnectionBounds | None = None
) -> AsyncIterator[LinkListener]:
    """Accept agents of other machines until left. Raises OSError."""
    async with serve_sockets(endpoint.serve, endpoint.answer, host=host, port=port, tls=tls, bounds=bounds) as listener:
        yield listener
