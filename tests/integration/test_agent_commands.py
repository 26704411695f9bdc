"""Commands in real kernels, through a manager: over sockets of their own, and never beyond their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.adapters.process.shim import processes
from sokovan.agent.watcher import WatchOptions
from sokovan.domain.ids import KernelId
from sokovan.ports.agent_gateway import AgentUnreachable
from sokovan.ports.runtime import KernelExecution
from tests.integration.agent_rig import AGENT, Agent, Manager, Register, comes_true, launch
from tests.kernels import runtime_in

K1 = KernelId("k1")
LIMIT_S = 180.0


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    async with runtime_in(tmp_path / "machine") as ready:
        yield ready


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    ready = Manager(Register())
    await ready.start()
    yield ready
    await ready.stop()


@pytest.fixture
async def agent(tmp_path: Path, manager: Manager, runtime: ProcessRuntime) -> AsyncIterator[Agent]:
    """An agent with one kernel that lasts."""
    ready = Agent(
        tmp_path, manager.address, runtime=runtime, watch=WatchOptions(changes=runtime.changes, ended=runtime.ended)
    )
    await comes_true(lambda: manager.agents.connected(AGENT))
    await manager.agents.create_kernel(AGENT, 1, launch("k1", "sleep", "600", image="host"))
    yield ready
    await ready.stop()


def run(manager: Manager, *command: str, terminal: bool = False) -> KernelExecution:
    return manager.agents.execute(AGENT, K1, 1, command, terminal=terminal)


async def first_line(command: KernelExecution) -> bytes:
    heard = b""
    async with asyncio.timeout(LIMIT_S):
        async for piece in command.output():
            heard += piece
            if b"\n" in heard:
                break
    return heard.partition(b"\n")[0]


async def is_gone(pid: int) -> None:
    await comes_true(lambda: (found := processes.look_up(pid)) is None or not found.alive)


async def leaves(_manager: Manager, command: KernelExecution) -> None:
    await command.__aexit__(None, None, None)


async def is_cut(manager: Manager, command: KernelExecution) -> None:
    manager.cut()
    with pytest.raises(AgentUnreachable):
        await asyncio.wait_for(command.wait(), LIMIT_S)
    await command.__aexit__(None, None, None)


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize("end", [leaves, is_cut])
async def test_a_command_is_killed_when_its_stream_ends(
    manager: Manager, end: Callable[[Manager, KernelExecution], Awaitable[None]]
) -> None:
    command = await run(manager, "sh", "-c", "trap '' TERM HUP; echo $$; exec sleep 600").__aenter__()
    pid = int(await first_line(command))
    await end(manager, command)
    await is_gone(pid)
    await comes_true(lambda: manager.agents.connected(AGENT))
    async with run(manager, "true") as further:
        assert await asyncio.wait_for(further.wait(), LIMIT_S) == 0


async def test_a_command_ends_with_its_agent_and_the_kernel_does_not(
    agent: Agent, manager: Manager, runtime: ProcessRuntime
) -> None:
    async with run(manager, "sh", "-c", "echo $$; exec sleep 600") as command:
        pid = int(await first_line(command))
        await agent.dies()
        with pytest.raises(AgentUnreachable):
            await asyncio.wait_for(command.wait(), LIMIT_S)
    await is_gone(pid)
    [found] = await runtime.observe()
    assert found.state.value == "running"


@pytest.mark.usefixtures("agent")
async def test_a_terminal_has_the_requested_size(manager: Manager) -> None:
    async with run(manager, "sh", "-c", "read line; stty size", terminal=True) as command:
        await command.resize(rows=12, columns=34)
        await command.write(b"\n")
        async with asyncio.timeout(LIMIT_S):
            heard = b"".join([piece async for piece in command.output()])
    assert b"12 34" in heard


@pytest.mark.usefixtures("agent")
async def test_a_command_with_unread_output_is_blocked(manager: Manager, tmp_path: Path) -> None:
    script = (
        "import sys\nfor n in range(2000):\n    sys.stdout.write('x' * 65536)\n    open('count', 'w').write(str(n))"
    )
    counted = tmp_path / "machine" / "kernels" / "k1-1" / "work" / "count"
    async with run(manager, "python3", "-c", script) as command:
        await comes_true(counted.exists)
        before = ""
        while before != (before := counted.read_text()):  # until it does not get further
            await SystemClock().sleep(0.3)
        assert int(before or "0") < 500, "a flood was taken in without anybody who wants it"
        total = 0
        async with asyncio.timeout(180):
            async for piece in command.output():
                total += len(piece)
            assert await command.wait() == 0
        assert total == 2000 * 65536


@pytest.mark.usefixtures("agent")
async def test_what_is_left_in_the_background_does_not_hold_a_command_up(manager: Manager) -> None:
    async with run(manager, "sh", "-c", "sleep 600 & echo done") as command:
        async with asyncio.timeout(LIMIT_S):
            assert b"".join([piece async for piece in command.output()]) == b"done\n"
            assert await command.wait() == 0
