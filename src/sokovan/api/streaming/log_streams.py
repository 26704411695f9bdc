"""Following the output of all kernels of a session in one stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
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
# After the end of a kernel its machine is asked for the rest for so long.
PATIENCE_S = 5.0
_PLACES = re.compile(r"[0-9]{1,7}:[0-9]{1,19}(,[0-9]{1,7}:[0-9]{1,19})*", re.ASCII)


def places_text(places: Mapping[int, int]) -> str:
    """How far each kernel was read, as the id of an event: `0:123,1:456`."""
    return ",".join(f"{index}:{offset}" for index, offset in sorted(places.items()))


def read_places(text: str) -> dict[int, int]:
    """The way back from `places_text`. Raises InvalidRequest."""
    found = _PLACES.fullmatch(text)
    pairs = [part.split(":") for part in text.split(",")] if found else []
    places = {int(index): int(offset) for index, offset in pairs}
    if not found or any(offset > OFFSET_MAX for offset in places.values()):
        raise InvalidRequest([Problem("header/last-event-id", "is not the id of an event of this stream")])
    return places


@dataclass(slots=True)
class Reading:
    """How far one kernel was read."""

    offset: int
    attempt: int
    ended: bool = False
    silent_since_ms: int | None = None


class LogStream:
    """Reads on until every kernel has said its last word."""

    def __init__(self, store: Store, logs: KernelLogs, *, clock: Clock, limits: StreamLimits) -> None:
        self._store, self._logs, self._clock, self._limits = store, logs, clock, limits

    async def lines(
        self,
        listener: EventListener,
        record: SessionRecord,
        wanted: int | None,
        begin: Mapping[int, int],
        *,
        follow: bool,
    ) -> Source:
        """LogChunks of the kernels wanted, from the offsets in `begin` on."""
        readings: dict[int, Reading] = {}
        read_ms, pause_s = self._clock.monotonic_ms(), self._limits.log_poll_s
        while True:
            kernels = [kernel for kernel in record.kernels if wanted in {None, kernel.index}]
            _adjust(readings, kernels, begin)
            progress = started = False
            async for kernel, part in self._round(kernels, readings):
                started = True
                if part.data or part.end:
                    progress = True
                    yield sse("log", log_chunk(kernel, part), event_id=_id_of(readings))
            if all(reading.ended for reading in readings.values()) or not (follow or progress):
                return
            if progress:
                pause_s = self._limits.log_poll_s
                continue
            # What has not started is waited for by events; what is silent is asked less and less often.
            yield pause_s if started else UNTIL_WOKEN
            pause_s = min(pause_s * 1.5, self._limits.log_poll_s_max)
            if listener.heard or self._clock.monotonic_ms() - read_ms >= self._limits.reread_s * 1000:
                listener.take()
                record, read_ms = await self._again(record.session_id), self._clock.monotonic_ms()
                pause_s = self._limits.log_poll_s

    async def _again(self, session_id: SessionId) -> SessionRecord:
        return await self._store.read(lambda unit: unit.sessions.get(session_id))

    async def _round(
        self, kernels: Iterable[KernelRecord], readings: Mapping[int, Reading]
    ) -> AsyncIterator[tuple[KernelRecord, LogPart]]:
        """One piece of each kernel that has started and not ended."""
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
            # It ended and was cleared away while we read: there is no more to come.
            part = LogPart(reading.offset, b"", end=True)
        except AgentUnreachable:
            now_ms = self._clock.monotonic_ms()
            reading.silent_since_ms = reading.silent_since_ms or now_ms
            if now_ms - reading.silent_since_ms >= PATIENCE_S * 1000:
                raise
            return LogPart(reading.offset, b"")
        if part is not None:
            reading.offset, reading.ended = part.offset + len(part.data), part.end
            reading.silent_since_ms = None
        return part


def _adjust(readings: dict[int, Reading], kernels: Iterable[KernelRecord], begin: Mapping[int, int]) -> None:
    """Begin with kernels that are new; one that was started anew speaks from the beginning."""
    for kernel in kernels:
        reading = readings.get(kernel.index)
        if reading is None:
            readings[kernel.index] = Reading(begin.get(kernel.index, 0), kernel.attempt)
        elif reading.attempt != kernel.attempt:
            readings[kernel.index] = Reading(0, kernel.attempt)


def _id_of(readings: Mapping[int, Reading]) -> str:
    return places_text({index: reading.offset for index, reading in readings.items() if reading.offset})
