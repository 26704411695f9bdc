"""Events one after the other, through the journal, to what follows from them.

Those that arrive together share one write. Nothing of a step is carried out, and
nobody sees its holdings, before that write is on the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from sokovan.agent.instructions import Instruction, SendProblem
from sokovan.agent.journal import Journal, JournalUnwritable
from sokovan.agent.journal_records import JournalRecord
from sokovan.agent.kernel_table import KernelTable
from sokovan.agent.messages import CreateRequested, Event, ForgetRequested, Observed, PrepareRequested, StopRequested
from sokovan.agent.supervisor import step
from sokovan.ports.environment import Clock

RETRY_S = 1.0


class EventProcessor:
    """The one place where the holdings of an agent change."""

    def __init__(
        self, holdings: KernelTable, journal: Journal, clock: Clock, *, carry_out: Callable[[Instruction], None]
    ) -> None:
        self.holdings = holdings
        self.seen = asyncio.Event()
        self._journal, self._clock, self._carry_out = journal, clock, carry_out
        # Not the event loop's threads: whatever hangs there, what has happened can be written down.
        self._writer = ThreadPoolExecutor(1, "journal")
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._postponed: set[asyncio.Task[None]] = set()

    def submit(self, event: Event) -> None:
        """Have an event judged, after those that came before it."""
        self._events.put_nowait(event)

    async def run(self) -> None:
        """Judge for ever."""
        try:
            while True:
                events = [await self._events.get()]
                while not self._events.empty():
                    events.append(self._events.get_nowait())
                await self._take(events)
        finally:
            for task in self._postponed:
                task.cancel()
            self._writer.shutdown(wait=False)

    async def _take(self, events: Sequence[Event]) -> None:
        holdings, records, instructions = self.holdings, list[JournalRecord](), list[Instruction]()
        for event in events:
            follows = step(holdings, event)
            holdings = follows.holdings
            records.extend(follows.records)
            instructions.extend(follows.instructions)
        try:
            if records:
                await asyncio.get_running_loop().run_in_executor(self._writer, self._journal.append, records)
        except JournalUnwritable as problem:
            await self._unwritten(events, problem)
            return
        self.holdings = holdings
        if holdings.seen:
            self.seen.set()
        for instruction in instructions:
            self._carry_out(instruction)

    async def _unwritten(self, events: Sequence[Event], problem: JournalUnwritable) -> None:
        """None of the events has happened: those that need no record still may, one by one."""
        if len(events) > 1:
            for event in events:
                await self._take([event])
            return
        match events[0]:
            case CreateRequested() | StopRequested() | ForgetRequested() | PrepareRequested() as request:
                self._carry_out(SendProblem(request.token, problem.code, problem.message))
            case Observed():
                pass  # the next one says it again
            case event:
                task = asyncio.ensure_future(self._later(event))
                self._postponed.add(task)
                task.add_done_callback(self._postponed.discard)

    async def _later(self, event: Event) -> None:
        await self._clock.sleep(RETRY_S)
        self.submit(event)
