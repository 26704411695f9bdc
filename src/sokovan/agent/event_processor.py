"""Applies events in order: new table, journal write, then the instructions.

Events that arrive together share one journal write. The new table is visible, and its
instructions run, only after that write is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from sokovan.agent.journal import Journal, JournalUnwritable
from sokovan.agent.journal_records import JournalRecord
from sokovan.agent.kernel_table import KernelTable
from sokovan.agent.messages import (
    CreateRequested,
    Event,
    ForgetRequested,
    Instruction,
    Observed,
    PrepareRequested,
    SendProblem,
    StopRequested,
)
from sokovan.agent.supervisor import step
from sokovan.ports.environment import Clock

RETRY_S = 1.0


class EventProcessor:
    """Owns the kernel table of an agent; the only place that changes it."""

    def __init__(
        self, table: KernelTable, journal: Journal, clock: Clock, *, execute: Callable[[Instruction], None]
    ) -> None:
        self.table = table
        self.observed = asyncio.Event()
        self._journal, self._clock, self._execute = journal, clock, execute
        # A thread of its own: blocking work in the event loop's threads must not delay the journal.
        self._writer = ThreadPoolExecutor(1, "journal")
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._postponed: set[asyncio.Task[None]] = set()

    def submit(self, event: Event) -> None:
        """Queue an event; events are applied in order."""
        self._events.put_nowait(event)

    async def run(self) -> None:
        """Apply events until cancelled."""
        try:
            while True:
                events = [await self._events.get()]
                while not self._events.empty():
                    events.append(self._events.get_nowait())
                await self._process(events)
        finally:
            for task in self._postponed:
                task.cancel()
            self._writer.shutdown(wait=False)

    async def _process(self, events: Sequence[Event]) -> None:
        table, records, instructions = self.table, list[JournalRecord](), list[Instruction]()
        for event in events:
            follows = step(table, event)
            table = follows.table
            records.extend(follows.records)
            instructions.extend(follows.instructions)
        try:
            if records:
                await asyncio.get_running_loop().run_in_executor(self._writer, self._journal.append, records)
        except JournalUnwritable as problem:
            await self._handle_unwritten(events, problem)
            return
        self.table = table
        if table.observed:
            self.observed.set()
        for instruction in instructions:
            self._execute(instruction)

    async def _handle_unwritten(self, events: Sequence[Event], problem: JournalUnwritable) -> None:
        """Refuse, drop or retry events whose records could not be written."""
        if len(events) > 1:
            for event in events:
                await self._process([event])
            return
        match events[0]:
            case CreateRequested() | StopRequested() | ForgetRequested() | PrepareRequested() as request:
                self._execute(SendProblem(request.token, problem.code, problem.message))
            case Observed():
                pass  # the next observation repeats it
            case event:
                task = asyncio.ensure_future(self._resubmit_later(event))
                self._postponed.add(task)
                task.add_done_callback(self._postponed.discard)

    async def _resubmit_later(self, event: Event) -> None:
        await self._clock.sleep(RETRY_S)
        self.submit(event)
