"""Faults of the proxy, seen from a client and a server."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Self

import pytest

from sokovan.testing.fault_proxy import CommitFault, FaultNotArmed, FaultProxy

STARTUP = (8).to_bytes(4) + (196608).to_bytes(4)
ENCRYPTION_REQUESTS = [(8).to_bytes(4) + code.to_bytes(4) for code in (80877103, 80877104)]
TIMEOUT_S = 60.0


def message(kind: bytes, content: bytes) -> bytes:
    return kind + (len(content) + 4).to_bytes(4) + content


def query(text: str) -> bytes:
    return message(b"Q", text.encode() + b"\0")


COMMIT = query("COMMIT;")
SELECT = query("SELECT 1;")
READY = message(b"Z", b"I")


@dataclass
class Server:
    """Answers every query with its text and READY, and remembers what it was asked."""

    port: int = 0
    queries: list[bytes] = field(default_factory=list)
    connections: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.closed.clear()
        try:
            assert await reader.readexactly(len(STARTUP)) == STARTUP
            writer.write(READY)
            while True:
                head = await reader.readexactly(5)
                content = await reader.readexactly(int.from_bytes(head[1:]) - 4)
                self.queries.append(content)
                writer.write(message(b"C", content) + READY)
        except (asyncio.IncompleteReadError, OSError):
            self.closed.set()
        finally:
            writer.close()


@dataclass
class Client:
    """One connection through the proxy."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def connect(cls, place: FaultProxy | Server) -> Self:
        client = cls(*await asyncio.open_connection("127.0.0.1", place.port))
        client.writer.write(STARTUP)
        assert await client.receive(len(READY)) == READY
        return client

    async def receive(self, size: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(size), TIMEOUT_S)

    async def ask(self, text: bytes) -> None:
        """Send a query and receive its answer."""
        self.writer.write(text)
        answer = message(b"C", text[5:]) + READY
        assert await self.receive(len(answer)) == answer

    async def finds_the_end(self) -> bool:
        """Whether the connection ends without another byte."""
        try:
            return await asyncio.wait_for(self.reader.read(1), TIMEOUT_S) == b""
        except ConnectionError:
            return True


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    yield server
    listener.close()


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(f"postgresql://user:word@127.0.0.1:{server.port}/name") as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    client = await Client.connect(proxy)
    yield client
    client.writer.close()


async def struck(proxy: FaultProxy) -> None:
    await asyncio.wait_for(proxy.struck(), TIMEOUT_S)


async def closed(server: Server) -> None:
    await asyncio.wait_for(server.closed.wait(), TIMEOUT_S)


async def test_without_a_fault_everything_passes(client: Client, server: Server) -> None:
    await client.ask(SELECT)
    await client.ask(COMMIT)
    assert server.queries == [SELECT[5:], COMMIT[5:]]


async def test_the_address_of_the_proxy_is_that_of_the_server_with_another_port(proxy: FaultProxy) -> None:
    assert proxy.url == f"postgresql://user:word@127.0.0.1:{proxy.port}/name"


@pytest.mark.parametrize("request_for_encryption", ENCRYPTION_REQUESTS)
async def test_encryption_is_declined_without_asking_the_server(
    proxy: FaultProxy, server: Server, request_for_encryption: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(request_for_encryption)
    client = Client(reader, writer)
    assert await client.receive(1) == b"N"
    writer.write(STARTUP)
    assert await client.receive(len(READY)) == READY
    assert server.connections == 1
    writer.close()


async def test_a_lost_commit_never_reaches_the_server(client: Client, server: Server, proxy: FaultProxy) -> None:
    proxy.arm(CommitFault.LOST)
    await client.ask(SELECT)
    client.writer.write(COMMIT)
    await struck(proxy)
    assert await client.finds_the_end()
    await closed(server)
    assert server.queries == [SELECT[5:]]


async def test_an_unanswered_commit_has_reached_the_server(client: Client, server: Server, proxy: FaultProxy) -> None:
    proxy.arm(CommitFault.UNANSWERED)
    client.writer.write(COMMIT)
    await struck(proxy)
    assert server.queries == [COMMIT[5:]]
    assert await client.finds_the_end()
    await closed(server)


async def test_a_held_commit_reaches_the_server_when_it_is_released(
    client: Client, server: Server, proxy: FaultProxy
) -> None:
    proxy.arm(CommitFault.HELD)
    client.writer.write(COMMIT)
    await struck(proxy)
    assert await client.finds_the_end()
    second = await Client.connect(proxy)
    await second.ask(SELECT)
    assert server.queries == [SELECT[5:]]
    proxy.release()
    await closed(server)
    assert server.queries == [SELECT[5:], COMMIT[5:]]
    second.writer.close()


async def test_a_held_commit_may_be_lost_after_all(client: Client, server: Server, proxy: FaultProxy) -> None:
    proxy.arm(CommitFault.HELD)
    client.writer.write(COMMIT)
    await struck(proxy)
    proxy.release(committed=False)
    await closed(server)
    assert server.queries == []


@pytest.mark.parametrize("fault", CommitFault)
async def test_a_fault_happens_once(client: Client, server: Server, proxy: FaultProxy, fault: CommitFault) -> None:
    proxy.arm(fault)
    client.writer.write(COMMIT)
    await struck(proxy)
    if fault is CommitFault.HELD:
        proxy.release(committed=False)
    await closed(server)
    second = await Client.connect(proxy)
    await second.ask(COMMIT)
    second.writer.close()


async def test_nothing_can_be_released_that_is_not_held(proxy: FaultProxy) -> None:
    with pytest.raises(FaultNotArmed, match="no commit is held"):
        proxy.release()


async def test_a_commit_is_held_only_until_it_is_released(client: Client, server: Server, proxy: FaultProxy) -> None:
    proxy.arm(CommitFault.HELD)
    client.writer.write(COMMIT)
    await struck(proxy)
    proxy.release()
    with pytest.raises(FaultNotArmed):
        proxy.release()
    await closed(server)


async def test_a_cut_ends_every_connection_and_new_ones_work(client: Client, server: Server, proxy: FaultProxy) -> None:
    proxy.cut()
    assert await client.finds_the_end()
    await closed(server)
    second = await Client.connect(proxy)
    await second.ask(SELECT)
    second.writer.close()


async def test_a_closed_proxy_refuses_and_comes_back_at_the_same_port(client: Client, proxy: FaultProxy) -> None:
    port = proxy.port
    await proxy.close()
    assert await client.finds_the_end()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port)
    await proxy.start()
    assert proxy.port == port
    second = await Client.connect(proxy)
    await second.ask(SELECT)
    second.writer.close()


async def test_a_stalled_proxy_keeps_connections_and_lets_nothing_through(
    client: Client, server: Server, proxy: FaultProxy
) -> None:
    proxy.stall()
    waiting = asyncio.ensure_future(client.ask(SELECT))
    opening = asyncio.ensure_future(Client.connect(proxy))
    # Without the proxy in between a great deal gets done meanwhile.
    direct = await Client.connect(server)
    for _ in range(50):
        await direct.ask(COMMIT)
    assert not waiting.done()
    assert not opening.done()
    assert SELECT[5:] not in server.queries
    proxy.resume()
    await waiting
    (await opening).writer.close()
    direct.writer.close()


async def test_a_client_of_a_server_that_is_away_finds_its_connection_ended() -> None:
    async with FaultProxy("postgresql://127.0.0.1:1/name") as proxy:
        client = Client(*await asyncio.open_connection("127.0.0.1", proxy.port))
        assert await client.finds_the_end()
        client.writer.close()


async def test_what_is_not_a_commit_passes_though_it_speaks_of_one(client: Client, proxy: FaultProxy) -> None:
    proxy.arm(CommitFault.LOST)
    await client.ask(query("SELECT 'COMMIT';"))
    await client.ask(query("COMMIT PREPARED 'x';"))
    await client.ask(message(b"P", b"COMMIT\0"))
