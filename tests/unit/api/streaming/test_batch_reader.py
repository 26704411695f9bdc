"""Reads for many callers at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from sokovan.api.streaming.batch_reader import BatchReader
from sokovan.testing.clock import VirtualClock


class Source:
    """Counts its reads; each waits until it is allowed to end."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.reading = asyncio.Event()
        self.version = 0
        self.open = asyncio.Event()
        self.open.set()

    async def read(self, keys: Sequence[int]) -> dict[int, tuple[int, int]]:
        version = self.version
        self.asked.append(list(keys))
        self.reading.set()
        await self.open.wait()
        if 13 in keys:
            raise LookupError("13")
        return {key: (key, version) for key in keys if key >= 0}


async def test_callers_that_are_woken_together_share_one_read() -> None:
    source = Source()
    reads = BatchReader(source.read, at_most=100)
    found = await asyncio.gather(*[reads.get([number % 3]) for number in range(30)])
    assert [list(one) for one in found] == [[number % 3] for number in range(30)]
    assert source.asked == [[0, 1, 2]]


async def test_a_caller_never_gets_what_was_read_before_it_asked() -> None:
    source = Source()
    reads = BatchReader(source.read, at_most=100)
    source.open.clear()
    early = asyncio.create_task(reads.get([1]))
    await source.reading.wait()
    source.version = 1
    late = asyncio.create_task(reads.get([1]))
    await VirtualClock().advance(0)
    source.open.set()
    assert (await early, await late) == ({1: (1, 0)}, {1: (1, 1)})


async def test_a_read_is_bounded_and_an_unknown_key_has_no_value() -> None:
    source = Source()
    reads = BatchReader(source.read, at_most=2)
    assert await reads.get([1, -1, 2]) == {1: (1, 0), -1: None, 2: (2, 0)}
    assert source.asked == [[1, -1], [2]]
    assert await reads.get([]) == {}


async def test_a_failure_is_that_of_the_callers_of_one_read() -> None:
    reads = BatchReader(Source().read, at_most=1)
    bad, good = await asyncio.gather(reads.get([13]), reads.get([1]), return_exceptions=True)
    assert isinstance(bad, LookupError)
    assert good == {1: (1, 0)}


async def test_a_caller_that_leaves_takes_nobody_with_it() -> None:
    source = Source()
    reads = BatchReader(source.read, at_most=100)
    leaves, stays = asyncio.create_task(reads.get([1])), asyncio.create_task(reads.get([1]))
    source.open.clear()
    await source.reading.wait()
    leaves.cancel()
    source.open.set()
    assert await stays == {1: (1, 0)}
    with pytest.raises(asyncio.CancelledError):
        await leaves
