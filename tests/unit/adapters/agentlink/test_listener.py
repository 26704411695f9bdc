"""The listener for agents: which requests it accepts, and how it refuses others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from socket import socket as plain_socket

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sokovan.adapters.agentlink.connection import LinkLimits
from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.listener import LinkAccess, LinkListener, serve_links
from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.ids import AgentId
from sokovan.entrypoints.web.connection_limits import ConnectionLimits, Connections
from sokovan.ports.agent_gateway import ImageReport
from sokovan.ports.agent_states import AgentState
from sokovan.wire.frames import LINK_PATH, STREAM_PATH, Welcome
from sokovan.wire.link_codec import FRAME_BYTES_MAX, decode, encode
from tests.integration.agent_rig import comes_true
from tests.unit.adapters.agentlink.lines import HELLO, Door
from tests.unit.api.api_harness import RecordedTelemetry

SHOWN = {"Authorization": "Bearer secret"}


class Rig:
    """A manager with an open door."""

    def __init__(self, limits: LinkLimits | None = None) -> None:
        self.door = Door()
        self.agents = LinkedAgents(SystemClock(), admit=self.door.admit, on_heartbeat=self._hear, limits=limits)
        self.listener: LinkListener | None = None

    async def _hear(self, _agent_id: AgentId, _state: AgentState, _images: tuple[ImageReport, ...]) -> None:
        pass

    def url(self, path: str = LINK_PATH) -> str:
        assert self.listener is not None
        return f"ws://127.0.0.1:{self.listener.port}{path}"

    async def status(self, path: str = LINK_PATH, **headers: str) -> int:
        """How a request with these headers is refused."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        with pytest.raises(InvalidStatus) as refusal:
            async with connect(self.url(path), additional_headers=given, proxy=None):
                pass
        return refusal.value.response.status_code


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    async with serve_links(
        made.agents, host="127.0.0.1", port=0, access=LinkAccess(names=["manager.example.org"])
    ) as made.listener:
        yield made


async def test_an_agent_with_a_credential_gets_a_link(rig: Rig) -> None:
    async with connect(rig.url(), additional_headers=SHOWN, proxy=None) as socket:
        await socket.send(encode(HELLO))
        content = await socket.recv()
        assert isinstance(content, bytes)
        assert isinstance(decode(content), Welcome)
        assert rig.agents.connected(AgentId("a1"))
    assert rig.door.tokens == ["secret"]


@pytest.mark.parametrize("path", [LINK_PATH, f"{STREAM_PATH}x", "/", "/metrics"])
@pytest.mark.parametrize("shown", ["", "secret", "Basic c2VjcmV0", "Bearer ", f"Bearer {'x' * 5000}"])
async def test_a_credential_is_required(rig: Rig, path: str, shown: str) -> None:
    assert await rig.status(path, **({"Authorization": shown} if shown else {})) == 401
    assert rig.door.tokens == []


@pytest.mark.parametrize("path", [LINK_PATH, f"{STREAM_PATH}x", "/"])
async def test_a_credential_that_is_not_known_opens_no_socket(path: str) -> None:
    rig = Rig()
    async with serve_links(
        rig.agents, host="127.0.0.1", port=0, access=LinkAccess(known="secret".__eq__)
    ) as rig.listener:
        assert await rig.status(path, Authorization="Bearer another") == 401
        assert rig.door.tokens == []
        async with connect(rig.url(), additional_headers=SHOWN, proxy=None) as socket:
            await socket.send(encode(HELLO))
            assert isinstance(decode(await socket.recv(decode=False)), Welcome)


async def test_only_so_many_may_stand_inside_the_door_without_being_admitted() -> None:
    rig = Rig(LinkLimits(unadmitted_max=2))
    async with serve_links(rig.agents, host="127.0.0.1", port=0) as rig.listener:
        silent = [await connect(rig.url(), additional_headers=SHOWN, proxy=None) for _ in range(2)]
        await comes_true(lambda: rig.agents.is_full)
        with pytest.raises(InvalidStatus) as refused:
            await connect(rig.url(), additional_headers=SHOWN, proxy=None)
        assert refused.value.response.status_code == 503
        assert refused.value.response.headers["Retry-After"] == "1"
        await silent[0].send(encode(HELLO))
        assert isinstance(decode(await silent[0].recv(decode=False)), Welcome)
        async with connect(rig.url(), additional_headers=SHOWN, proxy=None):
            await silent[1].close()
        await comes_true(lambda: not rig.agents.is_full)
        await silent[0].close()


async def test_browsers_are_turned_away_wherever_their_page_is_from(rig: Rig) -> None:
    for origin in ("http://evil.example.org", rig.url().replace("ws", "http"), "null"):
        assert await rig.status(Origin=origin, **SHOWN) == 403


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost:7647", True),
        ("LOCALHOST", True),
        ("127.0.0.1:7647", True),
        ("[::1]:7647", True),
        ("10.1.2.3", True),
        ("manager.example.org:7647", True),
        ("Manager.Example.org", True),
        ("evil.example.org:7647", False),
        ("manager.example.org.evil.org", False),
        ("[::1", False),
        ("", False),
    ],
)
async def test_a_manager_answers_to_its_own_names_and_to_addresses_only(rig: Rig, host: str, *, is_ours: bool) -> None:
    assert rig.listener is not None
    head = f"GET {LINK_PATH} HTTP/1.1\r\nHost: {host}\r\n"
    rest = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer secret\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.listener.port)
    writer.write((head + rest + key).encode())
    answer = await reader.readline()
    writer.close()
    assert answer.split()[1] == (b"101" if is_ours else b"421")


async def test_there_is_nothing_else_behind_the_door(rig: Rig) -> None:
    for path in ("/", "/agent/v1/link/more", f"{STREAM_PATH}unknown", STREAM_PATH, f"{LINK_PATH}?x=1"):
        assert await rig.status(path, **SHOWN) == 404


async def test_a_stream_is_for_the_agent_that_was_asked_and_for_once(rig: Rig) -> None:
    call = rig.agents.streams.expect("secret")
    path = STREAM_PATH + call.stream_id
    assert await rig.status(path, Authorization="Bearer another") == 404
    async with connect(rig.url(path), additional_headers=SHOWN, proxy=None) as socket:
        stream = await asyncio.wait_for(call.arrived, 60)
        await socket.send(b"bytes")
        await socket.send("text")
        assert [await stream.receive(), await stream.receive()] == [b"bytes", "text"]
        await stream.send("word")
        await stream.send(b"chunk")
        assert [await socket.recv(), await socket.recv()] == ["word", b"chunk"]
        assert await rig.status(path, **SHOWN) == 404
        rig.agents.streams.discard(call)
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    assert await stream.receive() is None
    with pytest.raises(ConnectionError):
        await stream.send(b"too late")


async def test_a_message_beyond_the_limit_ends_the_connection(rig: Rig) -> None:
    async with connect(rig.url(), additional_headers=SHOWN, proxy=None) as socket:
        with suppress(ConnectionClosed):
            await socket.send(b"x" * (FRAME_BYTES_MAX + 1))
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_a_text_is_no_frame_and_is_refused_with_a_message(rig: Rig) -> None:
    async with connect(rig.url(), additional_headers=SHOWN, proxy=None) as socket:
        await socket.send("hello")
        assert b"protocol" in await socket.recv(decode=False)


async def test_closing_the_listener_disconnects_every_agent() -> None:
    rig = Rig()
    call = None
    async with serve_links(rig.agents, host="127.0.0.1", port=0) as rig.listener:
        link = await connect(rig.url(), additional_headers=SHOWN, proxy=None)
        await link.send(encode(HELLO))
        await link.recv()
        call = rig.agents.streams.expect("secret")
        stream = await connect(rig.url(STREAM_PATH + call.stream_id), additional_headers=SHOWN, proxy=None)
        await asyncio.wait_for(call.arrived, 60)
    for socket in (link, stream):
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    assert not rig.agents.connected(AgentId("a1"))


async def test_a_port_that_is_taken_is_an_error_at_once(rig: Rig) -> None:
    assert rig.listener is not None
    with pytest.raises(OSError, match="address already in use"):
        async with serve_links(rig.agents, host="127.0.0.1", port=rig.listener.port):
            pass


async def test_idle_connections_keep_no_agent_out() -> None:
    made, telemetry = Rig(), RecordedTelemetry()
    limits = ConnectionLimits(total_max=8, per_address_max=8)
    bounds = Connections(limits, SystemClock(), telemetry=telemetry, log=lambda _line: None)
    async with (
        serve_links(made.agents, host="127.0.0.1", port=0, access=LinkAccess(bounds=bounds)) as made.listener,
        AsyncExitStack() as stack,
    ):
        async with connect(made.url(), additional_headers=SHOWN, proxy=None) as first:
            for _ in range(50):
                idle = stack.enter_context(plain_socket())
                idle.setblocking(False)
                await asyncio.get_running_loop().sock_connect(idle, ("127.0.0.1", made.listener.port))
            async with connect(made.url(), additional_headers=SHOWN, proxy=None) as second:
                for agent in (first, second):
                    await agent.send(encode(HELLO))
                    content = await agent.recv()
                    assert isinstance(content, bytes)
                    assert isinstance(decode(content), Welcome)
        assert len(telemetry.counted) > 40
