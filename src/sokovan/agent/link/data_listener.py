"""The data listener: proxies on other machines reach ports of kernels here.

A connection names a kernel, its attempt and a port, with a ticket of a manager. It is
connected to that port on loopback if the kernel runs; nothing else of this machine can be
reached. TLS is the caller's: `tls` has the agent's certificate.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sokovan.domain.serving.ticket import is_ticket
from sokovan.wire.serving.relay_messages import (
    ACCEPTED,
    LINE_BYTES_MAX,
    MalformedRelayRequest,
    RelayRequest,
    decode_relay,
)

OPEN_S = 5.0
CONNECTIONS_MAX = 4_096
# Connections that have not shown a ticket yet, and the time between two lines about refused ones.
OPENING_MAX = 256
LOG_EVERY_S = 1.0
PART_BYTES = 256 << 10
LOOPBACK = "127.0.0.1"


class RelayRefused(Exception):
    """The reason for refusing a connection."""


@dataclass(frozen=True, slots=True)
class DataSocket:
    """A bound socket, the agent's TLS context, and HOST:PORT for others."""

    listener: socket.socket
    tls: ssl.SSLContext
    address: str


class DataListener:
    """Serves proxies; `runs` says whether this agent runs a kernel in an attempt.

    Before it has the key of this agent's tickets, with the first link to a manager, nothing
    is served.
    """

    def __init__(self, at: DataSocket, log: Callable[[str], None]) -> None:
        self._at, self._log = at, log
        self._key = ""
        self.runs: Callable[[str, int], bool] = lambda _kernel, _attempt: False
        self._open = self.opening = 0
        self._log_from = 0.0

    def set_key(self, key: str) -> None:
        """Take over the key of this agent's tickets."""
        self._key = key

    async def run(self) -> None:
        """Serve until cancelled."""
        server = await asyncio.start_server(
            self._serve, sock=self._at.listener, ssl=self._at.tls, ssl_handshake_timeout=OPEN_S, limit=PART_BYTES
        )
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= CONNECTIONS_MAX or self.opening >= OPENING_MAX:
            writer.transport.abort()
            return
        self._open += 1
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._relay(reader, writer)
        finally:
            self._open -= 1
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opening += 1
        try:
            async with asyncio.timeout(OPEN_S):
                request = self._admitted(await reader.readuntil(b"\n"))
                own_reader, own_writer = await asyncio.open_connection(LOOPBACK, request.port, limit=PART_BYTES)
        except RelayRefused as refused:
            self._log_refusal(str(refused))
            writer.write(str(refused).encode() + b"\n")
            writer.close()
            await writer.wait_closed()
            return
        finally:
            self.opening -= 1
        try:
            writer.write(ACCEPTED + b"\n")
            if await _ended(_copied(reader, own_writer), _copied(own_reader, writer)):
                # What is still buffered is sent first; after a reset it is not, so that the proxy sees one, too.
                writer.close()
                await writer.wait_closed()
        finally:
            own_writer.transport.abort()

    def _admitted(self, line: bytes) -> RelayRequest:
        """The request of a first line. Raises RelayRefused."""
        if len(line) > LINE_BYTES_MAX:
            raise RelayRefused("the first line is too long")
        try:
            request = decode_relay(line)
        except MalformedRelayRequest as error:
            raise RelayRefused("the first line is malformed") from error
        valid = is_ticket(request.ticket, self._key, request.endpoint_id, request.port)
        if not valid or not self.runs(request.kernel_id, request.attempt):
            raise RelayRefused("the ticket is not valid, or the kernel does not run")
        return request

    def _log_refusal(self, reason: str) -> None:
        """Log a refusal; not each of many."""
        now = asyncio.get_running_loop().time()
        if now >= self._log_from:
            self._log_from = now + LOG_EVERY_S
            self._log(f"a connection to the data listener was refused: {reason}")


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until the sender closes."""
    while part := await reader.read(PART_BYTES):
        writer.write(part)
        await writer.drain()


async def _ended(to_kernel: Coroutine[Any, Any, None], from_kernel: Coroutine[Any, Any, None]) -> bool:
    """Copy both ways until one ends; whether the kernel has closed its side in order.

    Either end closes both: HTTP needs no connection that is open in one direction only.
    """
    sending, receiving = asyncio.ensure_future(to_kernel), asyncio.ensure_future(from_kernel)
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        return receiving.done() and receiving.exception() is None
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)
