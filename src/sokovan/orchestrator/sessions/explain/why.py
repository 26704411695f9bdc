"""Answers to why: reads what is known, and tries what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import HistoryEntry, SessionRecord
from sokovan.domain.slots import ResourceSlot, total
from sokovan.orchestrator.sessions.explain.explanations import (
    Explanation,
    Stage,
    WaitingSummary,
    When,
    WouldStart,
    meaning_of,
)
from sokovan.orchestrator.sessions.explain.plan import DryRunBusy, DryRuns
from sokovan.orchestrator.sessions.explain.reasons import (
    above_its_limit,
    explain_stage,
    explain_waiting,
    past_reasons,
    read_verdict,
    trouble_of,
)
from sokovan.orchestrator.sessions.explain.suggestions import suggestions
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import Store, UnitOfWork
from sokovan.scheduling.snapshot import workload_of
from sokovan.scheduling.trace import Verdict

PAGE = 500
_WORDS = {When.NOW: "now", When.WAITS: "later", When.NEVER: "never"}


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store has of one session."""

    session: SessionRecord
    story: Sequence[HistoryEntry]
    now_ms: int
    stored: StoredVerdict | None = None
    ahead: Sequence[SessionRecord] = ()
    awaited: Sequence[SessionRecord] = ()


@dataclass(slots=True)
class _Reason:
    """What is counted of the sessions that wait for one reason."""

    sessions: int = 0
    oldest_ms: int = 0
    slots: list[ResourceSlot] = field(default_factory=list)


class WhyService:
    """Says why sessions wait, one by one or all together."""

    def __init__(self, store: Store, dry_runs: DryRuns | None = None) -> None:
        self._store, self._dry_runs = store, dry_runs

    async def why(self, session_id: SessionId) -> Explanation:
        """Why a session is where it is. Raises NotFound."""
        known = await self._store.read(lambda unit: _known(unit, session_id))
        session, verdict = known.session, read_verdict(known.stored)
        reasons = past_reasons(known.story)
        stuck = trouble_of(session, known.story, now_ms=known.now_ms) is not None
        if session.status is not SessionStatus.PENDING or verdict is None or known.stored is None or stuck:
            stage = explain_stage(session, known.story, now_ms=known.now_ms)
            return replace(stage, history=reasons)
        waiting = explain_waiting(
            session, verdict, as_of_ms=known.stored.last_ms, ahead=known.ahead, awaited=known.awaited
        )
        if await self._is_above_limits(session, verdict):
            waiting = above_its_limit(waiting)
        return replace(waiting, history=reasons, would_start=await self._would_start(session, verdict))

    async def waiting(self, wanted: SessionFilter) -> list[WaitingSummary]:
        """Why sessions wait, by reason, the most frequent first."""
        reasons = await self._store.read(lambda unit: _reasons(unit, wanted))
        found = []
        for code, reason in reasons.items():
            advice, meaning = meaning_of(code)
            found.append(
                WaitingSummary(
                    code=code,
                    verdict=advice,
                    sessions=reason.sessions,
                    oldest_ms=reason.oldest_ms,
                    meaning=meaning,
                    slots=total(reason.slots),
                )
            )
        return sorted(found, key=lambda one: (-one.sessions, one.code))

    async def _is_above_limits(self, session: SessionRecord, verdict: Verdict) -> bool:
        """Whether a limit that keeps it back is not merely full, but below what it asks for."""
        if self._dry_runs is None or not verdict.code.startswith("QUOTA_"):
            return False
        try:
            return await self._dry_runs.is_above_limits(session)
        except DryRunBusy:  # then it is told what is in use, as a cycle found it
            return False

    async def _would_start(self, session: SessionRecord, verdict: Verdict) -> tuple[WouldStart, ...]:
        """When it would start if it asked for a little less, tried by the core itself."""
        if self._dry_runs is None:
            return ()
        tries = suggestions(workload_of(session.spec, submitted=session.place), verdict)
        try:
            outcomes = await self._dry_runs.of_changed(session, [one.session for one in tries]) if tries else []
        except DryRunBusy:  # why it waits is known all the same
            return ()
        # None at all if it has been placed meanwhile.
        return tuple(
            WouldStart(when=_WORDS[outcome.when], change=one.change)
            for one, outcome in zip(tries, outcomes, strict=False)
        )


async def _known(unit: UnitOfWork, session_id: SessionId) -> _Known:
    session = await unit.sessions.get(session_id)
    story = [entry for _, entry in await unit.sessions.history(session_id)]
    if session.status is not SessionStatus.PENDING:
        return _Known(session, story, unit.now_ms)
    stored = await unit.verdicts.get(session_id)
    verdict = read_verdict(stored)
    names = () if verdict is None else verdict.ahead
    ahead = await unit.sessions.page(SessionFilter(ids=names), limit=len(names)) if names else []
    order = {name: index for index, name in enumerate(names)}
    waiting = [one for one in ahead if one.status is SessionStatus.PENDING]
    before = session.spec.dependencies
    awaited = await unit.sessions.page(SessionFilter(ids=before), limit=len(before)) if before else []
    line = sorted(waiting, key=lambda one: order[one.session_id])
    return _Known(session, story, unit.now_ms, stored, line, awaited)


async def _reasons(unit: UnitOfWork, wanted: SessionFilter) -> dict[str, _Reason]:
    """The reasons of all sessions that wait, page by page."""
    pending = replace(wanted, statuses=(SessionStatus.PENDING,))
    reasons: dict[str, _Reason] = {}
    after: int | None = None
    while page := await unit.sessions.page(pending, limit=PAGE, after=after):
        verdicts = await unit.verdicts.of([session.session_id for session in page])
        for session in page:
            stored = verdicts.get(session.session_id)
            reason = reasons.setdefault(Stage.NOT_SEEN_YET.value if stored is None else stored.code, _Reason())
            # Oldest first: the first of a reason has waited longest.
            reason.oldest_ms = reason.oldest_ms or session.submitted_ms
            reason.sessions += 1
            reason.slots.append(session.spec.requested_slots())
        after = page[-1].place
        if len(page) < PAGE:
            break
    return reasons
