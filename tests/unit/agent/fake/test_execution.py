"""Commands in fake kernels; the gateway contract checks the rest."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.agent.fake.execution import FakeExecution
from sokovan.agent.fake.fake_agent import FakeKernel
from sokovan.agent.fake.script import KernelScript
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.ports.runtime import KILLED
from sokovan.testing.clock import VirtualClock
from sokovan.wire.frames import CreateKernel


def kernel() -> FakeKernel:
    return FakeKernel(CreateKernel(KernelId("k"), 1, SessionId("s"), "host", ("sleep", "infinity")), KernelScript(None))


async def test_a_shell_says_what_it_is_and_repeats_what_it_hears() -> None:
    async with FakeExecution(kernel, VirtualClock(), ["/bin/bash"], notice=b"simulated\n") as command:
        await command.write(b"ls\n")
        await command.write(b"")
        assert [piece async for piece in command.output()] == [b"simulated\n", b"ls\n"]
        assert await command.wait() == 0
        assert [piece async for piece in command.output()] == []


async def test_a_command_says_that_it_is_only_simulated() -> None:
    async with FakeExecution(kernel, VirtualClock(), ["true"], notice=b"simulated\n") as command:
        assert [piece async for piece in command.output()] == [b"simulated\n"]
        assert await command.wait() == 0


async def test_what_repeats_its_input_says_nothing_else() -> None:
    async with FakeExecution(kernel, VirtualClock(), ["cat"], notice=b"simulated\n") as command:
        await command.write(b"a")
        await command.write(b"")
        assert [piece async for piece in command.output()] == [b"a"]


async def test_a_command_takes_its_time() -> None:
    clock = VirtualClock()
    async with FakeExecution(kernel, clock, ["sh", "-c", "sleep 3; exit 4"]) as command:
        waiting = asyncio.ensure_future(command.wait())
        await clock.advance(2)
        assert not waiting.done()
        await clock.advance(2)
        assert await waiting == 4


@pytest.mark.parametrize("words", [["cat"], ["sleep", "infinity"], []])
async def test_a_command_ends_with_its_kernel(words: list[str]) -> None:
    host = kernel()

    async with FakeExecution(lambda: host, VirtualClock(), words) as command:
        host.ended.set()
        assert await command.wait() == KILLED


async def test_a_command_that_was_refused_was_never_there() -> None:
    def found() -> FakeKernel:
        raise AgentRefused(agent_id=AgentId("a"), problem="no")

    command = FakeExecution(found, VirtualClock(), ["cat"])
    with pytest.raises(AgentRefused):
        await command.__aenter__()
    assert await command.wait() == KILLED
    await command.__aexit__()
