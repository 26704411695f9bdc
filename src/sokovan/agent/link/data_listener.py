"""The data listener: proxies on other machines reach ports of kernels here.

A connection names a kernel, its attempt and a port, with a ticket of a manager. The runtime
connects it to that port if the kernel runs and listens there itself; nothing else of this
machine can be reached. TLS is the caller's: `tls` has the agent's certificate.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from sokovan.domain.ids import KernelId
from sokovan.domain.serving.ticket import is_ticket
from sokovan.ports.runtime import KernelExecution, RuntimeFailure
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
# A connection to a port of a kernel in an attempt.
Connect: TypeAlias = Callable[[KernelId, int, int], KernelExecution]


class RelayRefused(Exception):
    """The reason for refusing a connection."""


@dataclass(frozen=True, slots=True)
class DataSocket:
    """A bound socket, the agent's TLS context, and HOST:PORT for others."""

    listener: socket.socket
    tls: ssl.SSLContext
    address: str


class DataListener:
    """Serves proxies; `connect` connects to a port of a kernel in an attempt.

    Before it has the key of this agent's tickets, with the first link to a manager, nothing
    is served.
    """

    def __init__(self, at: DataSocket, connect: Connect, log: Callable[[str], None]) -> None:
        self._at, self._connect, self._log = at, connect, log
        self._key = ""
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
        async with AsyncExitStack() as stack:
            try:
                kernel = await self._opened(reader, stack)
            except RelayRefused as refused:
                self._log_refusal(str(refused))
                await _answer(writer, str(refused))
                return
            except RuntimeFailure as failure:  # an engine that starts does not listen yet: nothing for a log
                await _answer(writer, failure.message)
                return
            writer.write(ACCEPTED + b"\n")
            if await _ended(_sent(reader, kernel), _received(kernel, writer)):
                # Buffered bytes are sent first; after a reset it is not, so that the proxy sees one, too.
                writer.close()
                await writer.wait_closed()

    async def _opened(self, reader: asyncio.StreamReader, stack: AsyncExitStack) -> KernelExecution:
        """The connection to the kernel that a first line names. Raises RelayRefused, RuntimeFailure."""
        self.opening += 1
        try:
            async with asyncio.timeout(OPEN_S):
                request = self._admitted(await reader.readuntil(b"\n"))
                connection = self._connect(KernelId(request.kernel_id), request.attempt, request.port)
                return await stack.enter_async_context(connection)
        finally:
            self.opening -= 1

    def _admitted(self, line: bytes) -> RelayRequest:
        """The request of a first line. Raises RelayRefused."""
        if len(line) > LINE_BYTES_MAX:
            raise RelayRefused("the first line is too long")
        try:
            request = decode_relay(line)
        except MalformedRelayRequest as error:
            raise RelayRefused("the first line is malformed") from error
        if not is_ticket(request.ticket, self._key, request.endpoint_id, request.port):
            raise RelayRefused("the ticket is not valid")
        return request

    def _log_refusal(self, reason: str) -> None:
        """Log a refusal; not each of many."""
        now = asyncio.get_running_loop().time()
        if now >= self._log_from:
            self._log_from = now + LOG_EVERY_S
            self._log(f"a connection to the data listener was refused: {reason}")


async def _answer(writer: asyncio.StreamWriter, reason: str) -> None:
    """Send the proxy the reason why it is not connected, and close."""
    writer.write(reason.encode() + b"\n")
    writer.close()
    await writer.wait_closed()


async def _sent(reader: asyncio.StreamReader, kernel: KernelExecution) -> None:
    """Pass bytes on to the kernel until the proxy closes."""
    while part := await reader.read(PART_BYTES):
        await kernel.write(part)


async def _received(kernel: KernelExecution, writer: asyncio.StreamWriter) -> bool:
    """Pass bytes on from the kernel until it closes; whether it did so in order."""
    async for part in kernel.output():
        writer.write(part)
        await writer.drain()
    return await kernel.wait() == 0


async def _ended(to_kernel: Coroutine[Any, Any, None], from_kernel: Coroutine[Any, Any, bool]) -> bool:
    """Copy both ways until one ends; whether the kernel has closed its side in order.

    Either end closes both: HTTP needs no connection that is open in one direction only.
    """
    sending, receiving = asyncio.ensure_future(to_kernel), asyncio.ensure_future(from_kernel)
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        return receiving.done() and receiving.exception() is None and receiving.result()
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)
