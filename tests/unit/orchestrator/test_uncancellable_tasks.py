"""Work goes on when its caller was cancelled."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.orchestrator.uncancellable_tasks import UncancellableTasks


async def test_the_result_or_the_error_of_the_work_is_passed_on() -> None:
    async def answer(value: int) -> int:
        return 10 // value

    tasks = UncancellableTasks()
    assert await tasks.run(answer(2)) == 5
    with pytest.raises(ZeroDivisionError):
        await tasks.run(answer(0))


async def test_a_cancelled_caller_returns_at_once_and_its_work_completes() -> None:
    tasks, begun, going_on, ended = UncancellableTasks(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await going_on.wait()
        ended.set()

    caller = asyncio.create_task(tasks.run(work()))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not ended.is_set()
    going_on.set()
    await tasks.settle()
    assert ended.is_set()
