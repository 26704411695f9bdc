"""The listener for agents of other machines, with TLS and client certificates.

Without a certificate a client reads the authority's certificate and may join; all else
needs the certificate of an agent, and is served as that agent only.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_der_x509_certificate
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.listener import (
    ConnectionBounds,
    LinkListener,
    SocketStream,
    path_refusal,
    serve_agent,
    serve_sockets,
    with_delay,
)
from sokovan.adapters.agentlink.upload_stream import send_copy
from sokovan.ports.uploads import UploadStore
from sokovan.wire.frames import COPY_PATH, LINK_PATH
from sokovan.wire.join_messages import (
    AUTHORITY_PATH,
    JOIN_PATH,
    MESSAGE_BYTES_MAX,
    PEER_NAME,
    RENEW_PATH,
    JoinReply,
    JoinRequest,
    decode_request,
    encode_join,
)
from sokovan.wire.link_codec import MalformedFrame

JOIN_S = 10.0
# Credentials of agents that presented their certificate: its name and the digest of its key. A token of a file has no
# such form.
CERTIFIED = "certificate "

# Answers a request to join from this address, or a renewal of this agent, empty if it joins.
Join = Callable[[JoinRequest, str, str], Awaitable[JoinReply]]
# Whether the certificate of this credential is still granted.
Granted = Callable[[str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class MachineEndpoint:
    """Serves other machines; `authority` is the authority's certificate.

    Links are admitted by their first frame; for streams and uploads `granted` is asked.
    Other managers get copies of `copies`, the uploads that this manager itself has.
    """

    agents: LinkedAgents
    join: Join
    authority: str
    granted: Granted
    copies: UploadStore | None = None

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """The response to a refused request; None if it is accepted."""
        if request.path == AUTHORITY_PATH:
            return connection.respond(HTTPStatus.OK, self.authority)
        refusal = self.refusal(request, certified(connection))
        return None if refusal is None else with_delay(connection.respond(refusal[0], f"{refusal[1]}\n"), self.agents)

    def refusal(self, request: Request, credential: str) -> tuple[HTTPStatus, str] | None:
        """The reason for refusing a request with this credential; None if it is accepted."""
        if request.headers.get_all("Origin"):
            return HTTPStatus.FORBIDDEN, "requests from web pages are not accepted"
        if request.path == JOIN_PATH:
            return None
        if not credential:
            return HTTPStatus.UNAUTHORIZED, "a certificate is required: join this machine with sokovan agent join"
        if request.path == RENEW_PATH:
            return None
        if certified_name(credential)[0] == PEER_NAME or request.path.startswith(COPY_PATH):
            is_copy = self.copies is not None and request.path.startswith(COPY_PATH)
            is_peer = certified_name(credential)[0] == PEER_NAME
            return None if is_copy and is_peer else (HTTPStatus.NOT_FOUND, "not found")
        return path_refusal(self.agents, request.path, credential)

    async def serve(self, socket: ServerConnection) -> None:
        """Serve an accepted connection until it ends."""
        if socket.request is None:
            return
        path, credential = socket.request.path, certified(socket)
        if path.startswith(COPY_PATH) and self.copies is not None:
            await send_copy(SocketStream(socket), self.copies, path.removeprefix(COPY_PATH))
            return
        if path not in {JOIN_PATH, RENEW_PATH}:
            if path != LINK_PATH and not await self.granted(credential):
                await socket.close(CloseCode.POLICY_VIOLATION, "the certificate of this agent was revoked")
                return
            await serve_agent(self.agents, socket, path, credential)
            return
        with suppress(ConnectionClosed, TimeoutError, MalformedFrame):
            async with asyncio.timeout(JOIN_S):
                content = await socket.recv()
                if len(content) > MESSAGE_BYTES_MAX:
                    return
                renewing = certified_name(credential)[0] if path == RENEW_PATH else ""
                reply = await self.join(decode_request(content), str(socket.remote_address[0]), renewing)
                await socket.send(encode_join(reply))


def certified(connection: ServerConnection) -> str:
    """The credential of a connection with a certificate; empty if it presented none."""
    socket = connection.transport.get_extra_info("ssl_object")
    found = socket.getpeercert() if socket is not None else None
    names = [value for part in (found or {}).get("subject", ()) for key, value in part if key == "commonName"]
    if len(names) != 1:
        return ""
    public = load_der_x509_certificate(socket.getpeercert(binary_form=True)).public_key()
    digest = hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
    return f"{CERTIFIED}{names[0]} {digest}"


def certified_name(credential: str) -> tuple[str, str]:
    """The agent that a certificate names, and the digest of its key."""
    name, _, digest = credential.removeprefix(CERTIFIED).rpartition(" ")
    return name, digest


@asynccontextmanager
async def serve_machines(
    endpoint: MachineEndpoint, *, host: str, port: int, tls: ssl.SSLContext, bounds: ConnectionBounds | None = None
) -> AsyncIterator[LinkListener]:
    """Accept agents of other machines until left. Raises OSError."""
    async with serve_sockets(endpoint.serve, endpoint.answer, host=host, port=port, tls=tls, bounds=bounds) as listener:
        yield listener
