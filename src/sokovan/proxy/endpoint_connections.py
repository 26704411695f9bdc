"""Opens connections to endpoints: directly, or through an agent's data listener."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

from sokovan.wire.serving.relay_messages import ACCEPTED, LINE_BYTES_MAX, RelayRequest, encode_relay
from sokovan.wire.serving.route_table import EndpointEntry

P = TypeVar("P", bound=asyncio.BaseProtocol)


NO_AUTHORITY = "the replica is on another machine, and the proxy has no --ca FILE with the authority of the cluster"
# Without an agent's address, an endpoint is on the machine of the manager.
NOT_HERE = (
    "the replica is on the machine of the manager, and its agent has no data listener; start the server there with"
    " --set agent.data_listen=HOST:PORT"
)


def no_authority() -> str:
    """The default of a proxy: it knows no authority. Raises ConnectionRefusedError."""
    raise ConnectionRefusedError(NO_AUTHORITY)


class Dialler:
    """Dials endpoints; `load` gives the certificate of the authority of agents.

    It is loaded when an agent is dialled first: the server may make it after its gateway has
    started. A proxy that is not `near`, on the machine of the manager, dials agents only.
    """

    def __init__(self, load: Callable[[], str] = no_authority, *, near: bool = True) -> None:
        self._load, self._near = load, near
        self._tls: ssl.SSLContext | None = None

    async def connect(self, entry: EndpointEntry, factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        """A connection to an endpoint. Raises OSError."""
        if entry.agent:
            transport = await self._relayed(entry)
            protocol = factory()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            return transport, protocol
        if not self._near:
            raise ConnectionRefusedError(NOT_HERE)
        loop = asyncio.get_running_loop()
        return await loop.create_connection(factory, entry.host, entry.port)

    async def _relayed(self, entry: EndpointEntry) -> asyncio.Transport:
        """A connection that the agent of an endpoint has connected to its port. Raises OSError."""
        if self._tls is None:
            self._tls = trusting(self._load())
        loop = asyncio.get_running_loop()
        transport, opening = await loop.create_connection(_Opening, entry.host, entry.port, ssl=self._tls)
        if agent_of(transport.get_extra_info("peercert")) != entry.agent:
            transport.abort()
            raise ConnectionRefusedError(f"{entry.host}:{entry.port} is not agent {entry.agent}")
        try:
            transport.write(encode_relay(request_of(entry)))
            await opening.accepted
        except BaseException:
            transport.abort()
            raise
        return transport

    async def streams(self, entry: EndpointEntry, *, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an endpoint as streams. Raises OSError."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        transport, protocol = await self.connect(entry, lambda: asyncio.StreamReaderProtocol(reader, loop=loop))
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def trusting(authority_pem: str) -> ssl.SSLContext:
    """A TLS context that trusts the agents of an authority. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Agents have names, and certificates for them, at whatever address they are.
    context.check_hostname = False
    context.load_verify_locations(cadata=authority_pem)
    return context


def request_of(entry: EndpointEntry) -> RelayRequest:
    """The request to the data listener of an endpoint's agent."""
    kernel_id, _, attempt = entry.endpoint_id.rpartition(".")
    return RelayRequest(kernel_id, int(attempt), entry.kernel_port, entry.ticket)


def agent_of(certificate: object) -> str:
    """The agent that a certificate names; empty if none."""
    subject = certificate.get("subject", ()) if isinstance(certificate, dict) else ()
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else ""


class _Opening(asyncio.Protocol):
    """Reads the answer of a data listener; the next protocol takes over after it."""

    def __init__(self) -> None:
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line = b""

    def data_received(self, data: bytes) -> None:
        """Take over a part of the answer."""
        self._line += data
        if self.accepted.done():
            return
        if self._line == ACCEPTED + b"\n":
            self.accepted.set_result(None)
        elif b"\n" in self._line or len(self._line) > LINE_BYTES_MAX:
            reason = self._line.partition(b"\n")[0].decode(errors="replace")[:200]
            self.accepted.set_exception(ConnectionRefusedError(f"the agent refuses: {reason}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The agent closed before it answered."""
        if not self.accepted.done():
            self.accepted.set_exception(exc or ConnectionResetError("the agent closed the connection"))
            self.accepted.exception()  # not awaited if the connection was given up before it was open
