"""Caches the last stored verdict of each pending session, to write only changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sokovan.domain.events import VerdictsChanged
from sokovan.domain.ids import ScalingGroupName, SessionId
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import DETAIL_MAX, Change
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import UnitOfWork
from sokovan.scheduling.codec import verdict_to_json
from sokovan.scheduling.trace import MEANING, Code, Verdict
from sokovan.scheduling.validators import BUILT_IN_VALIDATORS, MANDATORY_VALIDATORS

# Intervals at which a verdict of the same code is written: with another summary or place, and unchanged.
_CHANGED_EVERY_MS = 1_000
_UNCHANGED_EVERY_MS = 30_000
# Only the first of a queue are written when their place changes: each start changes the place of all.
_PLACES_WRITTEN = 100
# Writes per cycle; the rest follows in the next cycles, so that a backlog does not delay starts.
_WRITES_MAX = 1_000
# A session that one of these refuses may not start, whatever room there is.
_RULES = frozenset(rule.name for rule in (*BUILT_IN_VALIDATORS, *MANDATORY_VALIDATORS))
_HELD = frozenset({Code.HELD, Code.QUEUE_LIMIT, Code.QUEUE_CLOSED})


@dataclass(slots=True)
class _Written:
    code: Code
    summary: str
    place: tuple[int, tuple[SessionId, ...]]
    held: bool
    written_ms: int


class VerdictCache:
    """Writes changed verdicts; new codes and refusals add history entries and events."""

    def __init__(self, batches: BatchWriter, clock: Clock) -> None:
        self._batches, self._clock = batches, clock
        self._written: dict[ScalingGroupName, dict[SessionId, _Written]] = {}
        # Of the last cycle, those that were too many to write, or that are written so often only.
        self._rest: dict[ScalingGroupName, tuple[list[Verdict], Collection[SessionId]]] = {}
        # Sessions that the last cycle found waiting although nothing holds them.
        self._eligible: dict[ScalingGroupName, frozenset[SessionId]] = {}

    def clear(self) -> None:
        """Forget what was written; the store counts a repeated reason."""
        for known in (self._written, self._rest, self._eligible):
            known.clear()

    def is_eligible(self, group: ScalingGroupName, session_id: SessionId) -> bool:
        """Whether the last cycle of this term found that the session may start, but waits."""
        return session_id in self._eligible.get(group, ())

    async def remove_all(self) -> None:
        """Remove all verdicts: no session is pending."""
        for group in [group for group, written in self._written.items() if written]:
            await self.write(group, ())

    async def write(self, group: ScalingGroupName, verdicts: Sequence[Verdict]) -> None:
        """Store the verdicts of one cycle. Raises FencedOut, StoreUnavailable."""
        first = group not in self._written
        known = self._written.setdefault(group, {})
        waiting = {verdict.session_id: verdict for verdict in verdicts if verdict.code is not Code.PLACED}
        held = held_sessions(waiting.values())
        self._eligible[group] = frozenset(one for one in waiting if one not in held)
        placed = [one.session_id for one in verdicts if one.code is Code.PLACED and (first or one.session_id in known)]
        gone = [*placed, *(one for one in known if one not in waiting and one not in placed)]
        await self._remove(gone)
        for session_id in gone:
            known.pop(session_id, None)
        now_ms = self._clock.monotonic_ms()
        new = [one for one in waiting.values() if _is_noted(known.get(one.session_id), one)]
        changed = [one for one in waiting.values() if _differs(known.get(one.session_id), one, held)]
        due = [one for one in waiting.values() if _is_due(known.get(one.session_id), one, now_ms, held)]
        chosen = [*new, *due][:_WRITES_MAX]
        now = {one.session_id for one in chosen}
        self._rest[group] = [one for one in (*new, *changed) if one.session_id not in now], held
        await self._write(known, chosen, held)

    async def write_rest(self) -> None:
        """Store some of what the last cycle left. Raises FencedOut, StoreUnavailable."""
        now_ms = self._clock.monotonic_ms()
        for group, (rest, held) in list(self._rest.items()):
            known, some = self._written.setdefault(group, {}), rest[:_WRITES_MAX]
            later = [one for one in some if not _is_ready(known.get(one.session_id), one, now_ms, held)]
            waiting = {one.session_id for one in later}
            await self._write(known, [one for one in some if one.session_id not in waiting], held)
            self._rest[group] = [*rest[len(some) :], *later], held

    async def _remove(self, ids: Sequence[SessionId]) -> None:
        async def work(unit: UnitOfWork, batch: Sequence[SessionId]) -> Sequence[None]:
            await unit.verdicts.remove(batch)
            return ()

        if ids:
            await self._batches.write(ids, work)

    async def _write(
        self, known: dict[SessionId, _Written], due: Sequence[Verdict], held: Collection[SessionId]
    ) -> None:
        if not due:
            return
        now_ms = self._clock.monotonic_ms()
        noted = {one.session_id for one in due if _is_noted(known.get(one.session_id), one)}

        async def work(unit: UnitOfWork, batch: Sequence[Verdict]) -> Sequence[SessionId]:
            await unit.verdicts.put([_stored(verdict, held=verdict.session_id in held) for verdict in batch])
            reasons: dict[tuple[Code, str], list[SessionId]] = {}
            for one in batch:
                if one.session_id in noted:
                    reasons.setdefault((one.code, _detail(one)), []).append(one.session_id)
            for (code, detail), ids in reasons.items():
                await unit.sessions.note(ids, Change("scheduler", Cause.COORDINATOR, code.value, detail))
                await unit.emit([VerdictsChanged(at_ms=unit.now_ms, session_ids=tuple(ids), code=code.value)])
            return [verdict.session_id for verdict in batch]

        written = await self._batches.write(due, work)
        done = set(written.results)
        for one in due:
            if one.session_id in done:
                known[one.session_id] = _Written(one.code, one.summary, _place(one), one.session_id in held, now_ms)


def held_sessions(verdicts: Collection[Verdict]) -> frozenset[SessionId]:
    """The sessions that may not start, whatever room there is.

    A gate, a quota, a dependency, their start time, array or queue holds them.
    Equal sessions share their checks, so that those are examined once.
    """
    checks = {id(verdict.checks): verdict.checks for verdict in verdicts}
    refused = {key for key, some in checks.items() if any(one.result != "ok" and one.name in _RULES for one in some)}
    return frozenset(one.session_id for one in verdicts if one.code in _HELD or id(one.checks) in refused)


def _is_ready(known: _Written | None, verdict: Verdict, now_ms: int, held: Collection[SessionId]) -> bool:
    return _is_noted(known, verdict) or _is_due(known, verdict, now_ms, held)


def _is_due(known: _Written | None, verdict: Verdict, now_ms: int, held: Collection[SessionId]) -> bool:
    if known is None or _is_noted(known, verdict):
        return False
    every_ms = _CHANGED_EVERY_MS if _reads_otherwise(known, verdict) else _UNCHANGED_EVERY_MS
    return known.held is not (verdict.session_id in held) or now_ms - known.written_ms >= every_ms


def _differs(known: _Written | None, verdict: Verdict, held: Collection[SessionId]) -> bool:
    """Whether a verdict of the same code is not as it was written."""
    if known is None or _is_noted(known, verdict):
        return False
    return known.held is not (verdict.session_id in held) or _reads_otherwise(known, verdict)


def _reads_otherwise(known: _Written, verdict: Verdict) -> bool:
    """Whether the summary differs, or the place of one of the first."""
    moved = verdict.position < _PLACES_WRITTEN and known.place != _place(verdict)
    return moved or known.summary != verdict.summary


def _place(verdict: Verdict) -> tuple[int, tuple[SessionId, ...]]:
    """The place in the queue: how many are ahead, and the first of them."""
    return verdict.position, verdict.ahead


def _is_noted(known: _Written | None, verdict: Verdict) -> bool:
    """Whether the history notes the verdict: its code is new, or a refusal, each of which counts."""
    return known is None or known.code is not verdict.code or verdict.code is Code.ALLOCATION_REFUSED


def _detail(verdict: Verdict) -> str:
    """The text of the history note; a refusal is explained by what had changed."""
    refused = verdict.code is Code.ALLOCATION_REFUSED
    return verdict.summary[:DETAIL_MAX] if refused else MEANING[verdict.code][1]


def _stored(verdict: Verdict, *, held: bool) -> StoredVerdict:
    document = verdict_to_json(verdict)
    return StoredVerdict(verdict.session_id, verdict.code.value, verdict.summary, document, held=held)
