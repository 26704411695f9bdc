"""The ports of agents through another process: a real Unix socket, a stub of the manager's ports."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from sokovan.adapters.agentlink.relay.agent_relay import RelayedPorts, RelayServer, metrics_answer
from sokovan.adapters.agentlink.relay.remote_agents import (
    ManagerProcessAway,
    Relay,
    RelayedFiles,
    RelayedGateway,
    RelayedStates,
)
from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable
from sokovan.ports.agent_states import AgentState, DeviceFigures, KernelReport
from sokovan.ports.kernel_files import FileInfo, FileListing, FilePart, KernelPath, UploadPlacement
from sokovan.ports.runtime import KernelUse, LogPart

A1, K1 = AgentId("a1"), KernelId("k1")
STATE = AgentState(
    A1,
    3,
    7,
    kernels=(KernelReport(K1, 1, running=True, idle_s=4, checkpoint=Checkpoint(5, step=6)),),
    load={"cpu_percent": 12},
    devices={"gpu-0": DeviceFigures(use_percent=50)},
)
PLACE = KernelPath(K1, 1, "out.txt")
LISTING = FileListing(is_folder=True, files=(FileInfo("out.txt", 3, 9, executable=True),), more=True)


class Echo:
    """A command that says in upper case what it hears, and ends with 3 at the end of its input."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.sizes: list[tuple[int, int]] = []
        self.left = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: object) -> None:
        self.left.set()

    async def write(self, data: bytes) -> None:
        self.said.put_nowait(data.upper() or None)

    async def resize(self, *, rows: int, columns: int) -> None:
        self.sizes.append((rows, columns))

    async def output(self) -> AsyncIterator[bytes]:
        while (piece := await self.said.get()) is not None:
            yield piece

    async def wait(self) -> int:
        return 3


class Refused(Echo):
    """A command that the agent does not start."""

    async def __aenter__(self) -> Self:
        raise AgentRefused(agent_id=A1, problem="no such kernel", reason="unknown-kernel")


class Stub:
    """Gateway, files and states of one agent."""

    def __init__(self) -> None:
        self.execution = Echo()
        self.cut: list[str] = []

    async def read_log(self, _agent: AgentId, kernel: KernelId, attempt: int, *, offset: int, limit: int) -> LogPart:
        return LogPart(offset, f"{kernel} {attempt} {limit}".encode(), end=True)

    async def measure(self, agent: AgentId, _kernel: KernelId, _attempt: int) -> KernelUse:
        if agent != A1:
            raise AgentUnreachable(agent_id=agent, problem="it has no link to this manager")
        return KernelUse(5, cpu_ms=7)

    def execute(
        self, _agent: AgentId, _kernel: KernelId, _attempt: int, command: Sequence[str], *, terminal: bool
    ) -> Any:
        assert (tuple(command), terminal) in {(("cat",), True), (("none",), False)}
        return self.execution if command[0] == "cat" else Refused()

    def connect(self, _agent: AgentId, _kernel: KernelId, _attempt: int, port: int) -> Any:
        assert port == 80
        return self.execution

    def connected(self, agent: AgentId) -> bool:
        return agent == A1

    async def get(self, agent: AgentId) -> AgentState | None:
        return STATE if agent == A1 else None

    async def fresh(self) -> Mapping[AgentId, AgentState]:
        return {A1: STATE, AgentId("a2"): AgentState(AgentId("a2"), 1, 1)}

    async def list(self, _agent: AgentId, place: KernelPath, *, after: str, files_max: int) -> FileListing:
        assert (place, after, files_max) == (PLACE, "a", 5)
        return LISTING

    async def read(self, _agent: AgentId, place: KernelPath, *, offset: int, limit: int, mark: str) -> FilePart:
        assert place == PLACE
        return FilePart(b"x" * limit, offset, mark)

    async def put(self, _agent: AgentId, place: KernelPath, upload: str) -> UploadPlacement:
        assert place == PLACE
        return UploadPlacement(done=True, path=upload)


@pytest.fixture
async def relayed(tmp_path: Path) -> AsyncIterator[tuple[Stub, Relay]]:
    """The stub, and the relay to it."""
    stub, path = Stub(), str(tmp_path / "s")
    ports = RelayedPorts(
        gateway=stub, files=stub, agents=stub, joining=JoinAddress("wss://m", "sha256:1"), disconnect=stub.cut.append
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        server = RelayServer({**ports.answers(), **metrics_answer(lambda: b"up 1\n")}, ports)
        async with server.served(listener.dup()):
            yield stub, Relay(path)


async def test_answers_of_agents_arrive_as_they_were_given(relayed: tuple[Stub, Relay]) -> None:
    _, relay = relayed
    gateway, files, states = RelayedGateway(relay, SystemClock()), RelayedFiles(relay), RelayedStates(relay)
    assert await gateway.read_log(A1, K1, 2, offset=4, limit=9) == LogPart(4, b"k1 2 9", end=True)
    assert await gateway.measure(A1, K1, 1) == KernelUse(5, cpu_ms=7)
    assert await files.list(A1, PLACE, after="a", files_max=5) == LISTING
    assert await files.read(A1, PLACE, offset=1, limit=2, mark="m") == FilePart(b"xx", 1, "m")
    assert await files.put(A1, PLACE, "u") == UploadPlacement(done=True, path="u")
    found = await states.get(A1)
    assert found == STATE
    assert found is not None
    assert (found.kernels[0].idle_s, found.kernels[0].checkpoint) == (4, Checkpoint(5, step=6))
    assert await states.get(AgentId("a9")) is None
    assert set(await states.fresh()) == {"a1", "a2"}
    assert await relay.joining() == JoinAddress("wss://m", "sha256:1")
    assert await relay.metrics() == b"up 1\n"


async def test_errors_of_agents_arrive_as_such(relayed: tuple[Stub, Relay]) -> None:
    _, relay = relayed
    gateway = RelayedGateway(relay, SystemClock())
    with pytest.raises(AgentUnreachable, match="agent 'a2': it has no link"):
        await gateway.measure(AgentId("a2"), K1, 1)
    with pytest.raises(AgentRefused, match="no such kernel") as refused:
        async with gateway.execute(A1, K1, 1, ("none",), terminal=False):
            pass
    assert refused.value.reason == "unknown-kernel"


async def test_a_command_hears_and_says_through_the_relay(relayed: tuple[Stub, Relay]) -> None:
    stub, relay = relayed
    gateway = RelayedGateway(relay, SystemClock())
    async with gateway.execute(A1, K1, 1, ("cat",), terminal=True) as command:
        await command.resize(rows=3, columns=4)
        await command.write(b"a" * 200_000)
        await command.write(b"")
        assert b"".join([piece async for piece in command.output()]) == b"A" * 200_000
        assert await command.wait() == 3
    assert stub.execution.sizes == [(3, 4)]
    await stub.execution.left.wait()


async def test_a_caller_that_leaves_ends_the_connection_to_a_port(relayed: tuple[Stub, Relay]) -> None:
    stub, relay = relayed
    async with RelayedGateway(relay, SystemClock()).connect(A1, K1, 1, 80):
        assert not stub.execution.left.is_set()
    await stub.execution.left.wait()


async def test_linked_agents_are_known_after_a_look(relayed: tuple[Stub, Relay]) -> None:
    _, relay = relayed
    looked = asyncio.Event()

    class Clock(SystemClock):
        async def sleep(self, _seconds: float) -> None:
            looked.set()
            await asyncio.Future()

    gateway = RelayedGateway(relay, Clock())
    assert not gateway.connected(A1)
    following = asyncio.ensure_future(gateway.follow())
    await looked.wait()
    following.cancel()
    assert (gateway.connected(A1), gateway.connected(AgentId("a2"))) == (True, False)


async def test_an_agent_is_disconnected_through_the_relay(relayed: tuple[Stub, Relay]) -> None:
    stub, relay = relayed
    await relay.disconnect("a1")
    assert stub.cut == ["a1"]


async def test_without_the_manager_agents_count_as_unreachable(tmp_path: Path) -> None:
    relay = Relay(str(tmp_path / "none"))
    with pytest.raises(ManagerProcessAway):
        await RelayedStates(relay).fresh()
    with pytest.raises(AgentUnreachable, match="the manager cannot be reached"):
        await RelayedGateway(relay, SystemClock()).measure(A1, K1, 1)
    await relay.disconnect("a1")
