"""Reads of each user in turn."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.api.access.request_queues import WAITING_MAX, ReadQueues
from sokovan.api.errors import TooManyRequests


class Reads:
    """Reads that run until the test ends them; `begun` are their users, in order."""

    def __init__(self, *, at_once: int) -> None:
        self.queues, self.begun = ReadQueues(at_once=at_once), list[str]()
        self.ends = asyncio.Event()

    async def read(self, user: str) -> None:
        async with self.queues.taken(user):
            self.begun.append(user)
            await self.ends.wait()


async def test_a_read_waits_for_those_of_its_own_user_only() -> None:
    reads = Reads(at_once=2)
    async with asyncio.TaskGroup() as tasks:
        for user in ("ann", "ann", "ann", "ann", "bob"):
            tasks.create_task(reads.read(user))
        await asyncio.sleep(0)  # noqa: TID251  # lets each task begin
        assert reads.begun == ["ann", "ann", "bob"]
        reads.ends.set()
    assert reads.begun == ["ann", "ann", "bob", "ann", "ann"]


async def test_a_read_that_was_cancelled_while_it_waited_takes_no_turn() -> None:
    reads = Reads(at_once=1)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reads.read("ann"))
        await asyncio.sleep(0)  # noqa: TID251  # lets the task begin
        waits = asyncio.ensure_future(reads.read("ann"))
        await asyncio.sleep(0)  # noqa: TID251  # lets it wait
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        tasks.create_task(reads.read("ann"))
        reads.ends.set()
    assert reads.begun == ["ann", "ann"]


async def test_too_many_waiting_reads_are_refused() -> None:
    reads = Reads(at_once=1)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(1 + WAITING_MAX):
            tasks.create_task(reads.read("ann"))
        await asyncio.sleep(0)  # noqa: TID251  # lets each task begin
        with pytest.raises(TooManyRequests, match="500 reads of user ann wait already"):
            await reads.read("ann")
        reads.ends.set()
    await reads.read("ann")
