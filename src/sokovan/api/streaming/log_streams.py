"""Follows the output of all kernels of a session in one stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass

from sokovan.api.errors import LogGone
from sokovan.api.settings import StreamLimits
from sokovan.api.streaming.event_hub import EventListener
from sokovan.api.streaming.event_streams import UNTIL_WOKEN, Source, sse
from sokovan.api.streaming.kernel_logs import OFFSET_MAX, KernelLogs, log_chunk
from sokovan.domain.ids import SessionId
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.ports.agent_gateway import AgentUnreachable
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import LogPart
from sokovan.ports.storage import Store

READ_AT_ONCE = 16
# How long an unreachable agent is retried for the rest of a log.
UNREACHABLE_S = 5.0
# Rounds after which who does not follow gets only what there is by then: a kernel may write faster than is read.
ROUNDS_WITHOUT_END = 64
_OFFSETS = re.compile(r"[0-9]{1,7}:[0-9]{1,19}(,[0-9]{1,7}:[0-9]{1,19})*", re.ASCII)


def offsets_text(offsets: Mapping[int, int]) -> str:
    """The offset of each kernel, as an event id: `0:123,1:456`."""
    return ",".join(f"{index}:{offset}" for index, offset in sorted(offsets.items()))


def read_offsets(text: str) -> dict[int, int]:
    """Parse the text of `offsets_text`. Raises InvalidRequest."""
    found = _OFFSETS.fullmatch(text)
    pairs = [part.split(":") for part in text.split(",")] if found else []
    offsets = {int(index): int(offset) for index, offset in pairs}
    if not found or any(offset > OFFSET_MAX for offset in offsets.values()):
        raise InvalidRequest([Problem("header/last-event-id", "is not the id of an event of this stream")])
    return offsets


@dataclass(slots=True)
class Reading:
    """The read position in the log of one kernel."""

    offset: int
    attempt: int
    ended: bool = False
    unreachable_since_ms: int | None = None


class LogStream:
    """Reads logs until every kernel has ended."""

    def __init__(self, store: Store, logs: KernelLogs, *, clock: Clock, limits: StreamLimits) -> None:
        self._store, self._logs, self._clock, self._limits = store, logs, clock, limits

    async def lines(
        self,
        listener: EventListener,
        record: SessionRecord,
        wanted: Collection[int] | None,
        begin: Mapping[int, int],
        *,
        follow: bool,
    ) -> Source:
        """LogChunks of the selected kernels, from the offsets in `begin` on."""
        readings: dict[int, Reading] = {}
        rounds, ends = 0, dict[int, int]()
        read_ms, pause_s = self._clock.monotonic_ms(), self._limits.log_poll_s
        while True:
            kernels = [kernel for kernel in record.kernels if wanted is None or kernel.index in wanted]
            _adjust(readings, kernels, begin)
            progress = started = False
            async for kernel, part in self._round(kernels, readings):
                started = True
                if part.data or part.end:
                    progress |= part.offset < ends.get(kernel.index, OFFSET_MAX)
                    yield sse("log", log_chunk(kernel, part), event_id=_id_of(readings))
            if all(reading.ended for reading in readings.values()) or not (follow or progress):
                return
            rounds += 1
            if rounds == ROUNDS_WITHOUT_END and not follow:
                ends = await self._ends([kernel for kernel in kernels if not readings[kernel.index].ended])
            if progress:
                pause_s = self._limits.log_poll_s
                continue
            # Kernels that have not started are awaited by events; silent ones are polled with backoff.
            yield pause_s if started else UNTIL_WOKEN
            pause_s = min(pause_s * 1.5, self._limits.log_poll_s_max)
            if listener.has_events or self._clock.monotonic_ms() - read_ms >= self._limits.reread_s * 1000:
                listener.take()
                record, read_ms = await self._again(record.session_id), self._clock.monotonic_ms()
                pause_s = self._limits.log_poll_s

    async def _ends(self, kernels: Iterable[KernelRecord]) -> dict[int, int]:
        """How much each kernel has written until now; of one that cannot be asked no more is read."""
        ends: dict[int, int] = {}
        for kernel in kernels:
            try:
                ends[kernel.index] = await self._logs.tail(kernel, 0)
            except (LogGone, AgentUnreachable):
                ends[kernel.index] = 0
        return ends

    async def _again(self, session_id: SessionId) -> SessionRecord:
        return await self._store.read(lambda unit: unit.sessions.get(session_id))

    async def _round(
        self, kernels: Iterable[KernelRecord], readings: Mapping[int, Reading]
    ) -> AsyncIterator[tuple[KernelRecord, LogPart]]:
        """One chunk of each kernel that has started and not ended."""
        todo = [kernel for kernel in kernels if not readings[kernel.index].ended]
        for start in range(0, len(todo), READ_AT_ONCE):
            some = todo[start : start + READ_AT_ONCE]
            parts = await asyncio.gather(*(self._piece(kernel, readings[kernel.index]) for kernel in some))
            for kernel, part in zip(some, parts, strict=True):
                if part is not None:
                    yield kernel, part

    async def _piece(self, kernel: KernelRecord, reading: Reading) -> LogPart | None:
        try:
            part = await self._logs.read(kernel, offset=reading.offset)
        except LogGone:
            # The log was deleted while it was read: no more output follows.
            part = LogPart(reading.offset, b"", end=True)
        except AgentUnreachable:
            now_ms = self._clock.monotonic_ms()
            reading.unreachable_since_ms = reading.unreachable_since_ms or now_ms
            if now_ms - reading.unreachable_since_ms >= UNREACHABLE_S * 1000:
                raise
            return LogPart(reading.offset, b"")
        if part is not None:
            reading.offset, reading.ended = part.offset + len(part.data), part.end
            reading.unreachable_since_ms = None
        return part


def _adjust(readings: dict[int, Reading], kernels: Iterable[KernelRecord], begin: Mapping[int, int]) -> None:
    """Add new kernels; a kernel with a new attempt is read from the beginning."""
    for kernel in kernels:
        reading = readings.get(kernel.index)
        if reading is None:
            readings[kernel.index] = Reading(begin.get(kernel.index, 0), kernel.attempt)
        elif reading.attempt != kernel.attempt:
            readings[kernel.index] = Reading(0, kernel.attempt)


def _id_of(readings: Mapping[int, Reading]) -> str:
    return offsets_text({index: reading.offset for index, reading in readings.items() if reading.offset})
