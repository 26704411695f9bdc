"""What waiting sessions were told last, so that only what changed is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sokovan.domain.events import VerdictsChanged
from sokovan.domain.ids import ScalingGroupName, SessionId
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import UnitOfWork
from sokovan.scheduling.codec import verdict_to_json
from sokovan.scheduling.trace import MEANING, Code, Verdict

# A sentence with new numbers is worth a write once in a while; one without, rarely.
_SUMMARY_EVERY_MS = 1_000
_EVERYTHING_EVERY_MS = 30_000
# The rest comes in the next cycles: a backlog must not hold up those who can start.
_WRITES_MAX = 1_000


@dataclass(slots=True)
class _Told:
    code: Code
    summary: str
    written_ms: int


class VerdictCache:
    """Stores why sessions wait; a new reason is a line of history, and an event."""

    def __init__(self, batches: BatchWriter, clock: Clock) -> None:
        self._batches, self._clock = batches, clock
        self._told: dict[ScalingGroupName, dict[SessionId, _Told]] = {}

    def clear(self) -> None:
        """Forget what was told; the store counts a reason that is told again."""
        self._told.clear()

    async def nobody_waits(self) -> None:
        """Whoever waited has left by another way."""
        for group in [group for group, told in self._told.items() if told]:
            await self.tell(group, ())

    async def tell(self, group: ScalingGroupName, verdicts: Sequence[Verdict]) -> None:
        """Write down the verdicts of one cycle. Raises FencedOut, StoreUnavailable."""
        inherited = group not in self._told
        told = self._told.setdefault(group, {})
        waiting = {verdict.session_id: verdict for verdict in verdicts if verdict.code is not Code.PLACED}
        placed = [
            one.session_id for one in verdicts if one.code is Code.PLACED and (inherited or one.session_id in told)
        ]
        gone = [*placed, *(one for one in told if one not in waiting and one not in placed)]
        await self._remove(gone)
        for session_id in gone:
            told.pop(session_id, None)
        await self._write(told, waiting.values())

    async def _remove(self, ids: Sequence[SessionId]) -> None:
        async def work(unit: UnitOfWork, batch: Sequence[SessionId]) -> Sequence[None]:
            await unit.verdicts.remove(batch)
            return ()

        if ids:
            await self._batches.write(ids, work)

    async def _write(self, told: dict[SessionId, _Told], verdicts: Iterable[Verdict]) -> None:
        now_ms = self._clock.monotonic_ms()
        other = [one for one in verdicts if _is_other(told.get(one.session_id), one)]
        rest = [one for one in verdicts if self._is_due(told.get(one.session_id), one, now_ms)]
        due = [*other, *rest][:_WRITES_MAX]
        if not due:
            return
        reasons = {one.session_id: one.code for one in other}

        async def work(unit: UnitOfWork, batch: Sequence[Verdict]) -> Sequence[SessionId]:
            await unit.verdicts.put([_stored(verdict) for verdict in batch])
            for code in dict.fromkeys(verdict.code for verdict in batch):
                ids = [one.session_id for one in batch if one.code is code and one.session_id in reasons]
                if ids:
                    change = Change("scheduler", Cause.COORDINATOR, code.value, MEANING[code][1])
                    await unit.sessions.note(ids, change)
                    await unit.emit([VerdictsChanged(at_ms=unit.now_ms, session_ids=tuple(ids), code=code.value)])
            return [verdict.session_id for verdict in batch]

        written = await self._batches.write(due, work)
        done = set(written.results)
        told.update({one.session_id: _Told(one.code, one.summary, now_ms) for one in due if one.session_id in done})

    def _is_due(self, known: _Told | None, verdict: Verdict, now_ms: int) -> bool:
        if _is_other(known, verdict) or known is None:
            return False
        every_ms = _EVERYTHING_EVERY_MS if known.summary == verdict.summary else _SUMMARY_EVERY_MS
        return now_ms - known.written_ms >= every_ms


def _is_other(known: _Told | None, verdict: Verdict) -> bool:
    return known is None or known.code is not verdict.code


def _stored(verdict: Verdict) -> StoredVerdict:
    return StoredVerdict(verdict.session_id, verdict.code.value, verdict.summary, verdict_to_json(verdict))
