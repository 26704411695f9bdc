"""Explains sessions: reads verdicts and history, and dry-runs suggestions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import HeldPort, HistoryEntry, SessionRecord
from sokovan.domain.session import ANY_PORT
from sokovan.domain.slots import ResourceSlot, total
from sokovan.orchestrator.sessions.explain.evictions import (
    EVICTS,
    read_eviction_checks,
    shown_victims,
)
from sokovan.orchestrator.sessions.explain.explanations import (
    Explanation,
    Stage,
    WaitingSummary,
    When,
    WouldStart,
    meaning_of,
)
from sokovan.orchestrator.sessions.explain.plan import DryRunBusy, DryRuns, group_check
from sokovan.orchestrator.sessions.explain.reasons import (
    RelatedSessions,
    explain_stage,
    explain_waiting,
    past_reasons,
    problem_of,
    read_verdict,
    why_group,
)
from sokovan.orchestrator.sessions.explain.suggestions import suggestions
from sokovan.orchestrator.sessions.explain.usage_order import usage_check
from sokovan.ports.repositories.sessions import PAGE, SessionFilter
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import Store, UnitOfWork
from sokovan.scheduling.snapshot import workload_of
from sokovan.scheduling.trace import RESERVED_FOR, Check, Code, Verdict

_ALL = SessionFilter()
_WHEN = {When.NOW: "now", When.WAITS: "later", When.NEVER: "never"}


@dataclass(frozen=True, slots=True)
class _StoredFacts:
    """A session with the stored state that explains it."""

    session: SessionRecord
    history: Sequence[HistoryEntry]
    now_ms: int
    stored: StoredVerdict | None = None
    related: RelatedSessions | None = None
    times_out_ms: int | None = None
    order: tuple[Check, ...] = ()
    evicted: tuple[Check, ...] = ()


@dataclass(slots=True)
class _Reason:
    """Totals of the sessions that wait for one reason."""

    sessions: int = 0
    oldest_ms: int = 0
    slots: list[ResourceSlot] = field(default_factory=list)


class WhyService:
    """Explains one session, or counts all pending sessions by reason."""

    def __init__(self, store: Store, dry_runs: DryRuns | None = None) -> None:
        self._store, self._dry_runs = store, dry_runs

    async def why(
        self, session_id: SessionId, scope: SessionFilter | None = None, *, evict: bool = False
    ) -> Explanation:
        """Explain the state of a session. Raises NotFound.

        Other sessions are named only if they are in `scope`: without one, those of the owner.
        With `evict`, a dry run says which sessions would be evicted for it. Raises DryRunBusy.
        """
        explanation, session = await self._explained(session_id, scope)
        if not evict or session.status is not SessionStatus.PENDING or self._dry_runs is None:
            return explanation
        unchanged = workload_of(session.spec, submitted=session.place)
        outcomes = await self._dry_runs.of_changed(session, [unchanged])
        if not outcomes:  # it was placed concurrently
            return explanation
        outcome = outcomes[0]
        seen = scope or SessionFilter(user=session.spec.owner.user)
        ids = [SessionId(one.session) for one in outcome.victims]
        names = await self._store.read(lambda unit: visible_names(unit, ids, seen))
        planned = [one for one in outcome.verdict.checks if one.name == EVICTS]
        nothing = Check(EVICTS, "no", "nothing would be evicted for it now")
        return replace(
            explanation,
            checks=(*explanation.checks, *(planned or [nothing])),
            evicts=shown_victims(outcome.victims, names),
        )

    async def _explained(self, session_id: SessionId, scope: SessionFilter | None) -> tuple[Explanation, SessionRecord]:
        facts = await self._store.read(lambda unit: _read_facts(unit, session_id, scope))
        session, verdict = facts.session, read_verdict(facts.stored)
        chosen = (*group_check(why_group(facts.history)), *facts.evicted)
        reasons = past_reasons(facts.history)
        problem = problem_of(session, facts.history, now_ms=facts.now_ms) is not None
        if session.status is not SessionStatus.PENDING or verdict is None or facts.stored is None or problem:
            stage = explain_stage(session, facts.history, now_ms=facts.now_ms)
            found = replace(
                stage,
                name=_name(session),
                checks=(*chosen, *stage.checks),
                history=reasons,
                times_out_ms=facts.times_out_ms,
            )
            return found, session
        waiting = explain_waiting(
            session,
            verdict,
            as_of_ms=facts.stored.last_ms,
            now_ms=facts.now_ms,
            related=facts.related,
        )
        waiting = replace(waiting, checks=(*chosen, *waiting.checks, *facts.order))
        found = replace(
            waiting,
            name=_name(session),
            history=reasons,
            times_out_ms=facts.times_out_ms,
            would_start=await self._would_start(session, verdict),
        )
        return found, session

    async def waiting(self, scope: SessionFilter) -> list[WaitingSummary]:
        """Count pending sessions by reason, the most frequent first."""
        reasons = await self._store.read(lambda unit: _reasons(unit, scope))
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

    async def _would_start(self, session: SessionRecord, verdict: Verdict) -> tuple[WouldStart, ...]:
        """When it would start with small changes, as dry runs."""
        if self._dry_runs is None:
            return ()
        tries = suggestions(workload_of(session.spec, submitted=session.place), verdict)
        try:
            outcomes = await self._dry_runs.of_changed(session, [one.session for one in tries]) if tries else []
        except DryRunBusy:  # the explanation does not need them
            return ()
        # No outcomes if it was placed concurrently.
        return tuple(
            WouldStart(when=_WHEN[outcome.when], change=one.change)
            for one, outcome in zip(tries, outcomes, strict=False)
        )


async def _read_facts(unit: UnitOfWork, session_id: SessionId, scope: SessionFilter | None) -> _StoredFacts:
    session = await unit.sessions.get(session_id)
    history = [entry for _, entry in await unit.sessions.history(session_id)]
    evicted = await read_eviction_checks(unit, session, history)
    if session.status is not SessionStatus.PENDING:
        return _StoredFacts(session, history, unit.now_ms, evicted=evicted)
    stored = await unit.verdicts.get(session_id)
    verdict = read_verdict(stored)
    names = () if verdict is None else verdict.ahead
    ahead = await _with_ids(unit, names)
    order = {name: index for index, name in enumerate(names)}
    waiting = [one for one in ahead if one.status is SessionStatus.PENDING]
    before = (*session.spec.dependencies, *_reserved_for(verdict))
    awaited = await _with_ids(unit, before)
    ordered = sorted(waiting, key=lambda one: order[one.session_id])
    seen = scope or SessionFilter(user=session.spec.owner.user)
    group = await unit.catalog.get(ScalingGroup, session.spec.scaling_group)
    times_out_ms = group.times_out_ms(None if stored is None else stored.eligible_ms)
    used = await usage_check(unit, session, group)
    ports = await _ports_taken(unit, session, verdict)
    holders = await _with_ids(unit, [one.session_id for one in ports])
    related = RelatedSessions(
        ports=ports,
        holders=holders,
        ahead=ordered,
        awaited=awaited,
        arrays=[one for array in session.spec.array_dependencies for one in await unit.arrays.named(array, _ALL)],
        visible=await _visible(unit, [one.session_id for one in (*ordered, *awaited, *holders)], seen),
    )
    return _StoredFacts(
        session, history, unit.now_ms, stored, related, times_out_ms=times_out_ms, order=used, evicted=evicted
    )


def _reserved_for(verdict: Verdict | None) -> tuple[SessionId, ...]:
    """The session for which the room is reserved."""
    checks = () if verdict is None else verdict.checks
    return tuple(SessionId(check.detail) for check in checks if check.name == RESERVED_FOR)


async def _ports_taken(unit: UnitOfWork, session: SessionRecord, verdict: Verdict | None) -> Sequence[HeldPort]:
    """The ports that the session needs and others have; any port of a range is no one's."""
    if verdict is None or verdict.code is not Code.PORTS_TAKEN:
        return ()
    fixed = {one.port for one in session.spec.ports if one.port != ANY_PORT}
    return await unit.ledger.held_ports(session.spec.scaling_group, fixed)


async def _with_ids(unit: UnitOfWork, ids: Sequence[SessionId]) -> Sequence[SessionRecord]:
    wanted = tuple(dict.fromkeys(ids))
    return await unit.sessions.page(SessionFilter(ids=wanted), limit=len(wanted)) if wanted else ()


async def _visible(unit: UnitOfWork, ids: Sequence[SessionId], scope: SessionFilter) -> frozenset[SessionId]:
    """Those of these sessions that are in the scope."""
    return frozenset(await visible_names(unit, ids, scope))


async def visible_names(unit: UnitOfWork, ids: Sequence[SessionId], scope: SessionFilter) -> Mapping[SessionId, str]:
    """The names of those of these sessions that are in the scope."""
    wanted = tuple(dict.fromkeys(ids))
    found = await unit.sessions.page(replace(scope, ids=wanted), limit=len(wanted)) if wanted else ()
    return {one.session_id: _name(one) for one in found}


def _name(session: SessionRecord) -> str:
    return session.spec.name or session.session_id


async def _reasons(unit: UnitOfWork, scope: SessionFilter) -> dict[str, _Reason]:
    """The reasons of all pending sessions, read page by page."""
    pending = replace(scope, statuses=(SessionStatus.PENDING,))
    reasons: dict[str, _Reason] = {}
    after: int | None = None
    while page := await unit.sessions.page(pending, limit=PAGE, after=after):
        verdicts = await unit.verdicts.of([session.session_id for session in page])
        for session in page:
            stored = verdicts.get(session.session_id)
            reason = reasons.setdefault(Stage.NOT_SEEN_YET.value if stored is None else stored.code, _Reason())
            # Pages are oldest first, so the first session of a reason is its oldest.
            reason.oldest_ms = reason.oldest_ms or session.submitted_ms
            reason.sessions += 1
            reason.slots.append(session.spec.requested_slots())
        after = page[-1].place
        if len(page) < PAGE:
            break
    return reasons
