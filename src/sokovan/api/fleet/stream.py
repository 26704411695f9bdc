"""The changes of the fleet, found once for all streams while there are any."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from zlib import crc32

from sokovan.api.fleet.changes import FleetDifference, change_view, fleet_difference
from sokovan.api.fleet.columns import seen_by
from sokovan.api.fleet.reader import FleetReader, FleetState
from sokovan.api.streaming.event_hub import EventListener
from sokovan.api.streaming.event_streams import UNTIL_WOKEN, Source, Streams, sse
from sokovan.domain.errors import StoreUnavailable
from sokovan.domain.events import AgentEnrolled, AgentMoved, Event, KernelMoved, KernelsMoved, SessionMoved
from sokovan.domain.owners.access import Ownership
from sokovan.ports.environment import Clock

# The pause after a read, as a multiple of the time that it took: a busy server has other work.
REST_TIMES = 4
# Changes that are kept for slow readers; they have no more values than the fleet.
CHANGES_KEPT = 60
CONNECTED = b": connected\n\n"
_SEPARATOR = "."
# Events that may change the columns. Figures, connections and faults of devices have none; they are read now and then.
_KINDS: tuple[type[Event], ...] = (AgentEnrolled, AgentMoved, KernelMoved, KernelsMoved, SessionMoved)


@dataclass(frozen=True, slots=True)
class FleetStep:
    """A difference with its number, encoded by what its readers may see."""

    number: int
    found: FleetDifference
    parts: dict[Ownership, bytes] = field(default_factory=dict)


class FleetStream:
    """Reads the fleet as long as there are streams, and keeps its changes.

    Each stream sends the columns, and then each change. One that is too slow, or that resumes
    after changes that are no longer kept, sends the columns again.
    """

    def __init__(self, reader: FleetReader, streams: Streams, *, clock: Clock, name: str) -> None:
        self._reader, self._streams, self._clock, self._name = reader, streams, clock, name
        self._readers: set[EventListener] = set()
        self._steps: deque[FleetStep] = deque()
        self._state: FleetState | None = None
        self._number = 0
        self._task: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[None]
        self._failure: Exception | None = None

    async def follow(self, listener: EventListener, scope: Ownership, place: str) -> Source:
        """The parts for a reader who has seen everything up to a place."""
        async with self._followed_by(listener):
            yield CONNECTED
            number = self._number_of(place, scope)
            while True:
                missed = self._since(number)
                if missed is None:
                    state, number = self._known(), self._number
                    body = await self._reader.body(state, scope)
                    yield b"event: fleet\nid: %s\ndata: %s\n\n" % (self._place(number, scope).encode(), body)
                    continue
                for step in missed:
                    yield self._part(step, scope)
                    number = step.number
                if self._failure is not None:
                    raise self._failure
                if number == self._number:
                    yield UNTIL_WOKEN

    @asynccontextmanager
    async def _followed_by(self, listener: EventListener) -> AsyncIterator[None]:
        """The fleet is read as long as someone follows it; it was read once at least."""
        self._readers.add(listener)
        try:
            if self._task is None or self._task.done():
                self._failure, self._begun = None, asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._run(self._begun))
            await asyncio.shield(self._begun)
            yield
        finally:
            self._readers.discard(listener)
            if not self._readers and self._task is not None:
                task, self._task = self._task, None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _run(self, begun: asyncio.Future[None]) -> None:
        """Find changes until cancelled; a failure ends all streams."""
        try:
            # Before the first read: what happens during it is read again.
            with self._streams.hub.noticing(*_KINDS) as bell:
                while True:
                    rest_s = await self._read_again()
                    if not begun.done():
                        begun.set_result(None)
                    await self._clock.sleep(rest_s)
                    await self._streams.pause(bell, self._streams.limits.reread_s)
        except Exception as error:  # noqa: BLE001  # each stream raises it
            self._failure = error
            if not begun.done():
                begun.set_exception(error)
                begun.exception()  # all streams may have ended
            self._wake()

    async def _read_again(self) -> float:
        """Read the fleet, and keep what has changed; the seconds to rest after it."""
        began_ms = self._clock.monotonic_ms()
        state, before = await self._reader.current(kept_ms=0), self._state
        found = None if before is None else fleet_difference(before.fleet, state.fleet)
        self._state = state
        if found is not None:
            self._number += 1
            # Each plain user is a scope: an older change is encoded again for the few who are behind.
            for step in self._steps:
                step.parts.clear()
            self._steps.append(FleetStep(self._number, found))
            self._forget_old(state)
            self._wake()
        limits, took_s = self._streams.limits, (self._clock.monotonic_ms() - began_ms) / 1000
        return min(limits.reread_s, max(limits.fleet_s, REST_TIMES * took_s))

    def _forget_old(self, state: FleetState) -> None:
        """Changes that are kept are no more than all columns."""
        most = len(state.fleet.agents) + sum(len(one.devices) for one in state.fleet.agents.values())
        size = sum(step.found.size for step in self._steps)
        while len(self._steps) > CHANGES_KEPT or (size > most and self._steps):
            size -= self._steps.popleft().found.size

    def _wake(self) -> None:
        for listener in self._readers:
            listener.woken.set()

    def _known(self) -> FleetState:
        if self._state is None:
            raise StoreUnavailable("the fleet was not read yet")
        return self._state

    def _since(self, number: int) -> list[FleetStep] | None:
        """The changes after a number; None if they are not known."""
        missing = self._number - number
        if number < 0 or not 0 <= missing <= len(self._steps):
            return None
        return list(self._steps)[len(self._steps) - missing :]

    def _part(self, step: FleetStep, scope: Ownership) -> bytes:
        """A change as readers of one scope get it; encoded once for all of them."""
        part = step.parts.get(scope)
        if part is None:
            view, place = change_view(step.found, seen_by(scope)), self._place(step.number, scope)
            part = step.parts[scope] = sse("change", view, event_id=place)
        return part

    def _place(self, number: int, scope: Ownership) -> str:
        return f"{self._mark(scope)}{_SEPARATOR}{number}"

    def _mark(self, scope: Ownership) -> str:
        """Names this process, and what the reader may see: another one has seen other columns."""
        return f"{self._name}-{crc32(repr(scope).encode()):08x}"

    def _number_of(self, place: str, scope: Ownership) -> int:
        """The number in a place of this process and scope; -1 for any other."""
        mark, _, text = place.rpartition(_SEPARATOR)
        return int(text[:20]) if mark == self._mark(scope) and text.isascii() and text.isdigit() else -1
