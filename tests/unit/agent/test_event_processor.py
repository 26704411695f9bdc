"""Events are applied in order, and no instruction runs before its records are durable."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sokovan.agent.event_processor import RETRY_S, EventProcessor
from sokovan.agent.journal import Journal
from sokovan.agent.journal_records import JournalRecord
from sokovan.agent.kernel_table import Token
from sokovan.agent.messages import (
    CreateRequested,
    Instruction,
    LinkOpened,
    Observed,
    ObstacleObserved,
    SendAnswer,
    SendProblem,
    StartInstruction,
    StopRequested,
)
from sokovan.ports.agent_gateway import GoneProof
from sokovan.testing.clock import VirtualClock
from tests.unit.agent.supervisor_harness import FRESH, key, launch


class Rig:
    """A processor with a journal in a file."""

    def __init__(self, path: Path) -> None:
        self.clock = VirtualClock()
        self.journal = Journal.open(path)
        self.done: list[Instruction] = []
        self.durable: list[object] = []
        self.processor = EventProcessor(FRESH, self.journal, self.clock, execute=self._execute)
        self.task = asyncio.ensure_future(self.processor.run())

    def _execute(self, instruction: Instruction) -> None:
        self.done.append(instruction)
        self.durable.append(self.journal.state)

    async def ready(self) -> None:
        self.processor.submit(LinkOpened(1, 1))
        self.processor.submit(Observed((), 0, 0))
        await self.processor.observed.wait()

    async def does(self, count: int) -> list[Instruction]:
        """Wait until so many things were done."""
        async with asyncio.timeout(60):
            while len(self.done) < count:
                await asyncio.to_thread(os.sched_yield)
        return self.done


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "journal")
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)
    made.journal.close()


async def test_nothing_is_done_before_the_journal_has_it(rig: Rig) -> None:
    await rig.ready()
    before = len(rig.done)
    rig.processor.submit(CreateRequested(Token(1, 1), 1, launch()))
    rig.processor.submit(StopRequested(Token(1, 2), 1, key("k2"), 1.0))
    done = await rig.does(before + 3)

    assert StartInstruction(launch()) in done
    assert SendAnswer(Token(1, 2), GoneProof(gone=True)) in done
    for memory in rig.durable[before:]:
        assert memory is rig.journal.state
    assert key() in rig.journal.state.kernels
    assert key("k2") in rig.journal.state.tombstones


async def test_the_journal_is_written_while_the_threads_of_the_event_loop_hang(rig: Rig) -> None:
    released, few = threading.Event(), ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(few)
    hung = asyncio.ensure_future(asyncio.to_thread(released.wait))
    try:
        async with asyncio.timeout(60):
            await rig.ready()
        assert rig.journal.state.incarnation == 1
        assert not hung.done()
    finally:
        released.set()
        await hung


async def test_events_that_come_together_share_a_write(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.ready()
    real, writes = rig.journal.append, list[int]()

    def counted(records: Sequence[JournalRecord]) -> None:
        writes.append(len(records))
        real(records)

    monkeypatch.setattr(rig.journal, "append", counted)
    before = len(rig.done)
    for number in range(20):
        rig.processor.submit(StopRequested(Token(1, number), 1, key(f"k{number}"), 1.0))
    await rig.does(before + 20)

    assert writes == [20]


async def test_a_request_that_cannot_be_written_down_is_refused_and_changes_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.ready()
    before = len(rig.done)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", _full)
        rig.processor.submit(CreateRequested(Token(1, 1), 1, launch()))
        rig.processor.submit(StopRequested(Token(1, 2), 1, key("k2"), 1.0))
        rig.processor.submit(ObstacleObserved("the disk is full"))
        done = await rig.does(before + 2)
    codes = [instruction.code for instruction in done[before:] if isinstance(instruction, SendProblem)]

    assert codes == ["journal-unwritable", "journal-unwritable"]
    assert not rig.processor.table.kernels
    assert not rig.processor.table.tombstones
    await rig.clock.advance(0)
    assert rig.processor.table.obstacle == "the disk is full", "what needs no record happens all the same"


async def test_what_must_not_get_lost_is_tried_again_when_the_disk_is_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", _full)
        rig.processor.submit(LinkOpened(1, 5))
        async with asyncio.timeout(60):
            while not rig.clock.sleeping:
                await asyncio.to_thread(os.sched_yield)
        assert rig.processor.table.incarnation == 0
    await rig.clock.advance(RETRY_S)
    await rig.does(1)

    assert rig.processor.table.incarnation == 5
    assert rig.journal.state.incarnation == 5


def _full(*_arguments: object) -> None:
    raise OSError(28, "No space left on device")
