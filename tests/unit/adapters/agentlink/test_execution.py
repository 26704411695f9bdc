"""A command at the far end of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sokovan.adapters.agentlink.connection import LinkLimits
from sokovan.adapters.agentlink.execution import CHUNKS_MAX, LinkedExecution
from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, ImageReport
from sokovan.ports.agent_states import AgentState
from sokovan.testing.clock import VirtualClock
from sokovan.wire.exec_messages import (
    CHUNK_BYTES_MAX,
    CommandEnded,
    InputEnded,
    Resized,
    decode_message,
    encode_message,
)
from sokovan.wire.frames import Done, OpenStream, Request, RequestFailed, Response, Welcome
from tests.unit.adapters.agentlink.lines import HELLO, Door, Line, Pipe

A1 = AgentId("a1")


class Opening:
    """A stream that comes at once, and notes when it is left."""

    def __init__(self) -> None:
        self.pipe, self.is_open = Pipe(), False

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Pipe]:
        self.is_open = True
        yield self.pipe
        self.is_open = False


async def on_heartbeat(execution: LinkedExecution) -> bytes:
    async with asyncio.timeout(60):
        return b"".join([chunk async for chunk in execution.output()])


async def test_input_and_messages_are_distinguished() -> None:
    opening = Opening()
    async with LinkedExecution(A1, opening.opened()) as execution:
        await execution.write(b"x" * (CHUNK_BYTES_MAX + 1))
        await execution.resize(rows=1, columns=2)
        await execution.write(b"")
        first, second, resized, ended = opening.pipe.to_agent
        assert (first, second) == (b"x" * CHUNK_BYTES_MAX, b"x")
        assert isinstance(resized, str)
        assert isinstance(ended, str)
        assert (decode_message(resized), decode_message(ended)) == (Resized(1, 2), InputEnded())
    assert not opening.is_open


async def test_output_ends_with_the_command_and_may_be_asked_for_again() -> None:
    opening = Opening()
    for content in (b"one ", b"two", encode_message(CommandEnded(7))):
        opening.pipe.to_manager.put_nowait(content)
    async with LinkedExecution(A1, opening.opened()) as execution:
        assert await execution.wait() == 7
        assert await on_heartbeat(execution) == b"one two"
        assert await on_heartbeat(execution) == b""


async def test_unread_output_blocks_the_sender() -> None:
    opening = Opening()
    for _ in range(CHUNKS_MAX + 5):
        opening.pipe.to_manager.put_nowait(b"x")
    opening.pipe.to_manager.put_nowait(encode_message(CommandEnded(0)))
    async with LinkedExecution(A1, opening.opened()) as execution:
        await VirtualClock().advance(1)
        assert opening.pipe.to_manager.qsize() == 5
        assert await on_heartbeat(execution) == b"x" * (CHUNKS_MAX + 5)
        assert await execution.wait() == 0


@pytest.mark.parametrize("last", [None, "no word", '{"type": "command-ended", "exit_code": null}'])
async def test_an_interrupted_stream_is_raised_to_the_waiter(last: str | None) -> None:
    opening = Opening()
    opening.pipe.to_manager.put_nowait(b"half")
    opening.pipe.to_manager.put_nowait(last)
    async with LinkedExecution(A1, opening.opened()) as execution:
        assert await on_heartbeat(execution) == b"half"
        with pytest.raises(AgentUnreachable):
            await execution.wait()
        opening.pipe.broken = True
        await execution.write(b"too late")


async def test_a_command_that_was_not_started_has_no_exit_code() -> None:
    execution = LinkedExecution(A1, Opening().opened())
    with pytest.raises(AgentUnreachable, match="not started"):
        await execution.wait()
    await execution.__aexit__(None, None, None)


class Rig:
    """A gateway with one agent, which the test plays."""

    def __init__(self, request_s: float) -> None:
        self.clock, self.line = VirtualClock(), Line()
        self.agents = LinkedAgents(
            self.clock, admit=Door().admit, on_heartbeat=self._hear, limits=LinkLimits(request_s=request_s)
        )
        self.link = asyncio.ensure_future(self.agents.serve(self.line, "secret"))

    async def _hear(self, _agent_id: AgentId, _state: AgentState, _images: tuple[ImageReport, ...]) -> None:
        pass

    async def asked(self) -> tuple[Request, OpenStream]:
        request = await self.line.hears()
        assert isinstance(request, Request)
        assert isinstance(request.command, OpenStream)
        return request, request.command


@asynccontextmanager
async def linked(request_s: float = 60.0) -> AsyncIterator[Rig]:
    made = Rig(request_s)
    made.line.says(HELLO)
    assert isinstance(await made.line.hears(), Welcome)
    yield made
    made.agents.close()
    await made.link


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with linked() as made:
        yield made


async def test_an_agent_is_asked_for_a_stream_and_brings_it(rig: Rig) -> None:
    execution = rig.agents.execute(A1, KernelId("k1"), 2, ["cat", "-"], terminal=True)
    entering = asyncio.ensure_future(execution.__aenter__())
    request, ask = await rig.asked()
    assert (ask.kernel_id, ask.attempt, ask.command, ask.terminal) == ("k1", 2, ("cat", "-"), True)
    assert rig.agents.streams.is_expected(ask.stream_id, "secret")
    pipe = Pipe()
    serving = asyncio.ensure_future(rig.agents.streams.serve(ask.stream_id, pipe))
    rig.line.says(Response(request.number, Done()))
    await entering
    pipe.to_manager.put_nowait(encode_message(CommandEnded(0)))
    assert await execution.wait() == 0
    await execution.__aexit__()
    await serving


async def test_an_agent_that_refuses_leaves_nothing_open(rig: Rig) -> None:
    entering = asyncio.ensure_future(rig.agents.execute(A1, KernelId("k1"), 1, ["x"], terminal=False).__aenter__())
    request, ask = await rig.asked()
    rig.line.says(RequestFailed(request.number, "runtime-failure", "no such kernel"))
    with pytest.raises(AgentRefused, match="no such kernel"):
        await entering
    assert not rig.agents.streams.is_expected(ask.stream_id, "secret")


async def test_a_stream_that_is_not_opened_times_out() -> None:
    async with linked(request_s=0.2) as rig:
        entering = asyncio.ensure_future(rig.agents.execute(A1, KernelId("k1"), 1, ["x"], terminal=False).__aenter__())
        request, ask = await rig.asked()
        rig.line.says(Response(request.number, Done()))
        with pytest.raises(AgentUnreachable, match="did not open"):
            await entering
        assert not rig.agents.streams.is_expected(ask.stream_id, "secret")
