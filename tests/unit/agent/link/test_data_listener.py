"""A data listener connects a proxy with a ticket to the port of its kernel, and to nothing else."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from sokovan.adapters.local.certificates import CertificateAuthority, new_key, signing_request
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.ports.port_connection import PortConnection
from sokovan.adapters.process.shim.processes import look_up
from sokovan.adapters.process.threads import Threads
from sokovan.agent.link import data_listener
from sokovan.agent.link.data_listener import DataListener, DataSocket
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.serving.ticket import data_key, ticket
from sokovan.entrypoints.joining.joined_agent import bound
from sokovan.proxy.endpoint_connections import Dialler, trusting
from sokovan.wire.serving.route_table import EndpointEntry
from tests.kernels import until

KEY = data_key("secret", AgentId("far"))
BODY = b"x" * (3 << 20)


def certificate(authority: CertificateAuthority, folder: Path, name: str) -> ssl.SSLContext:
    """The TLS context of an agent's data listener."""
    key = new_key()
    issued, _ = authority.issue(signing_request(key, name), name)
    (folder / f"{name}.pem").write_bytes(issued.encode() + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem")
    return context


class Machines:
    """An agent with a data listener, a kernel that sends a large answer, and a proxy's dialler."""

    def __init__(self, folder: Path) -> None:
        self.authority = CertificateAuthority(folder / "tls", SystemClock())
        self.lines: list[str] = []
        listener = bound("127.0.0.1", (0,))
        self.port = listener.getsockname()[1]
        at = DataSocket(listener, certificate(self.authority, folder, "far"), f"127.0.0.1:{self.port}")
        self.threads = Threads()
        # So the program of the kernel is this process.
        self.shim = look_up(os.getppid())
        self.data = DataListener(at, self.connect, self.lines.append)
        self.data.set_key(KEY)
        self.kernel_port = 0
        self.dialler = Dialler(lambda: self.authority.certificate)

    def connect(self, kernel_id: KernelId, attempt: int, port: int) -> PortConnection:
        """A connection to the kernel's port, by the runtime."""
        assert (kernel_id, attempt) == ("s.0", 1)
        return PortConnection(port, lambda: self.shim, threads=self.threads, presence=nullcontext())

    def entry(self, **other: object) -> EndpointEntry:
        """The endpoint of the kernel, as in the route table."""
        known: dict[str, object] = {
            "endpoint_id": "s.0.1",
            "revision": 1,
            "host": "127.0.0.1",
            "port": self.port,
            "state": "ACTIVE",
            "agent": "far",
            "kernel_port": self.kernel_port,
            "ticket": ticket(KEY, "s.0.1", self.kernel_port),
        }
        return EndpointEntry(**{**known, **other})  # type: ignore[arg-type]  # values of several types

    async def asked(self, entry: EndpointEntry) -> bytes:
        """The answer of the kernel to a question, until it closes."""
        reader, writer = await self.dialler.streams(entry, limit=1 << 16)
        try:
            writer.write(b"question\n")
            return await reader.read(-1)
        finally:
            writer.transport.abort()


@asynccontextmanager
async def machines(folder: Path) -> AsyncIterator[Machines]:
    found = Machines(folder)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()) + BODY)
        await writer.drain()
        writer.close()

    kernel = await asyncio.start_server(answer, "127.0.0.1", 0)
    found.kernel_port = kernel.sockets[0].getsockname()[1]
    running = asyncio.create_task(found.data.run())
    async with kernel:
        try:
            yield found
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            found.threads.close()


async def test_a_proxy_with_a_ticket_gets_the_whole_answer_of_the_kernel(tmp_path: Path) -> None:
    async with machines(tmp_path) as found:
        assert await found.asked(found.entry()) == b"question\n" + BODY


@pytest.mark.parametrize(
    "other",
    [{"ticket": ""}, {"ticket": "0" * 64}, {"endpoint_id": "s.0.2"}, {"endpoint_id": "s.1.1"}, {"kernel_port": 22}],
)
async def test_a_ticket_for_something_else_is_refused_and_nothing_is_sent_on(
    tmp_path: Path, other: dict[str, object]
) -> None:
    async with machines(tmp_path) as found:
        with pytest.raises(ConnectionRefusedError, match="the ticket is not valid"):
            await found.asked(found.entry(**other))
        assert len(found.lines) == 1


async def test_the_ticket_of_a_kernel_that_has_ended_is_refused(tmp_path: Path) -> None:
    async with machines(tmp_path) as found:
        found.shim = None
        with pytest.raises(ConnectionRefusedError, match="the kernel does not run"):
            await found.asked(found.entry())
        assert found.lines == [], "an engine that starts is no matter for the operator"


async def test_a_port_on_which_another_process_listens_is_refused(tmp_path: Path) -> None:
    async with machines(tmp_path) as found:
        found.shim = look_up(os.getpid())  # the listener is not below it
        with pytest.raises(ConnectionRefusedError, match="used by a process outside the kernel"):
            await found.asked(found.entry())


async def test_before_a_manager_is_linked_nothing_is_served(tmp_path: Path) -> None:
    async with machines(tmp_path) as found:
        found.data.set_key("")
        with pytest.raises(ConnectionRefusedError):
            await found.asked(found.entry(ticket=ticket("", "s.0.1", found.kernel_port)))


async def test_a_first_line_that_is_none_or_has_no_end_is_refused(tmp_path: Path) -> None:
    async with machines(tmp_path) as found:
        context = trusting(found.authority.certificate)
        for line, answer in (
            (b"GET / HTTP/1.1\r\n", b"the first line is malformed\n"),
            (b"x" * 2_000 + b"\n", b"too long"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", found.port, ssl=context)
            writer.write(line)
            assert answer in await reader.read(-1)
            writer.transport.abort()


async def opening(found: Machines, count: int) -> None:
    """Wait until so many connections have not shown a ticket."""

    async def reached() -> bool:
        return found.data.opening == count

    await until(reached)


async def test_connections_without_a_ticket_are_limited_and_refusals_logged_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_listener, "OPENING_MAX", 2)
    monkeypatch.setattr(data_listener, "LOG_EVERY_S", 3_600)
    async with machines(tmp_path) as found:
        context = trusting(found.authority.certificate)
        silent = [await asyncio.open_connection("127.0.0.1", found.port, ssl=context) for _ in range(2)]
        await opening(found, 2)
        with pytest.raises(OSError, match=r"closed|reset|Connection"):
            await found.asked(found.entry())
        for _, writer in silent:
            writer.transport.abort()
        await opening(found, 0)
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError, match="ticket"):
                await found.asked(found.entry(ticket="0" * 64))
            await opening(found, 0)
        assert len(found.lines) == 1


async def test_an_agent_with_another_name_or_authority_gets_no_ticket(tmp_path: Path) -> None:
    async with machines(tmp_path) as found:
        with pytest.raises(ConnectionRefusedError, match="is not agent near"):
            await found.asked(found.entry(agent="near"))
        foreign = CertificateAuthority(tmp_path / "foreign", SystemClock())
        found.dialler = Dialler(lambda: foreign.certificate)
        with pytest.raises(ssl.SSLCertVerificationError):
            await found.asked(found.entry())
        found.dialler = Dialler()
        with pytest.raises(ConnectionRefusedError, match="no --ca FILE"):
            await found.asked(found.entry())
