"""Commands inside a kernel: streams, back-pressure, terminals, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.adapters.process.execution import ProcessExecution
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.adapters.process.threads import Threads
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import RuntimeFailure
from tests.kernels import SLEEP, launch, place, runtime_in, said

LIMIT_S = 60.0


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    async with runtime_in(tmp_path / "root") as ready:
        await ready.create(launch("k", SLEEP))
        await said(ready, "k", b"up\n")
        yield ready


def execution(tmp_path: Path, *command: str, terminal: bool = False) -> ProcessExecution:
    return ProcessExecution(place(tmp_path / "root", "k"), command, terminal=terminal, threads=Threads())


@pytest.mark.usefixtures("runtime")
async def test_more_than_a_pipe_holds_goes_through_both_ways(tmp_path: Path) -> None:
    text = b"x" * (1 << 20)
    async with asyncio.timeout(LIMIT_S), execution(tmp_path, "cat") as command:

        async def speak() -> None:
            await command.write(text)
            await command.write(b"")

        speaking = asyncio.ensure_future(speak())
        received = b"".join([piece async for piece in command.output()])
        await speaking
        assert received == text
        assert await command.wait() == 0


@pytest.mark.usefixtures("runtime")
async def test_input_for_an_ended_command_is_ignored(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), execution(tmp_path, "true") as command:
        assert await command.wait() == 0
        await command.write(b"x" * (1 << 20))
        await command.write(b"")
        await command.write(b"x")
        await command.resize(rows=1, columns=1)
        assert [piece async for piece in command.output()] == []


@pytest.mark.usefixtures("runtime")
async def test_the_end_of_input_reaches_a_terminal_too(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), execution(tmp_path, "cat", terminal=True) as command:
        await command.write(b"text\n")
        await command.write(b"")
        received = b"".join([piece async for piece in command.output()])
        assert received.count(b"text") == 2  # the terminal's echo, and cat
        assert await command.wait() == 0


@pytest.mark.usefixtures("runtime")
async def test_a_signal_shows_in_the_exit_code_and_waiting_twice_is_the_same(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), execution(tmp_path, "sh", "-c", "kill -9 $$") as command:
        assert [await command.wait(), await command.wait()] == [137, 137]


@pytest.mark.usefixtures("runtime")
async def test_a_command_that_was_not_entered_cannot_be_waited_for(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="not started"):
        await execution(tmp_path, "true").wait()
    with pytest.raises(RuntimeFailure, match="empty"):
        await execution(tmp_path).__aenter__()


@pytest.mark.slow
async def test_many_commands_run_side_by_side(runtime: ProcessRuntime) -> None:
    async def said_by(number: int) -> bytes:
        async with runtime.execute(KernelId("k"), 1, ("echo", str(number)), terminal=False) as command:
            return b"".join([piece async for piece in command.output()])

    async with asyncio.timeout(LIMIT_S):
        received = await asyncio.gather(*(said_by(number) for number in range(12)))
    assert received == [b"%d\n" % number for number in range(12)]
