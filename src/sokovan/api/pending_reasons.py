"""Adds the current pending reason to session views."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sokovan.api.mapping.sessions import session_row, session_view
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import SessionSummary
from sokovan.orchestrator.sessions.explain.reasons import with_names
from sokovan.ports.repositories.sessions import PAGE, SessionFilter
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import UnitOfWork
from sokovan.scheduling.trace import Code
from sokovan.wire.api.sessions import SessionRowView, SessionView

# The number of sessions per list with image progress; each costs a query.
PROGRESS_MAX = 20
# Views that are built before other tasks run, in a few milliseconds.
_CHUNK = 25


async def session_rows(unit: UnitOfWork, sessions: Sequence[SessionSummary]) -> list[SessionRowView]:
    """Rows of sessions; waiting ones with their last reason."""
    counts_of = await unit.sessions.kernel_counts([one.session_id for one in sessions])
    reasons = await _reasons(unit, sessions)
    rows: list[SessionRowView] = []
    for one in sessions:
        rows.append(session_row(one, reasons.get(one.session_id), agents=counts_of[one.session_id].agents))
        if len(rows) % _CHUNK == 0:
            await asyncio.sleep(0)  # noqa: TID251  # yields, so that a long page does not block the event loop
    return rows


async def session_views(unit: UnitOfWork, sessions: Sequence[SessionSummary]) -> list[SessionView]:
    """Views of sessions; waiting ones with their last reason and their timeout."""
    counts_of = await unit.sessions.kernel_counts([one.session_id for one in sessions])
    reasons = await _reasons(unit, sessions)
    groups = {group.name: group for group in await unit.catalog.all(ScalingGroup)} if reasons else {}
    times_out_ms = {
        one.session_id: groups[one.spec.scaling_group].times_out_ms(reasons[one.session_id].eligible_ms)
        for one in sessions
        if one.status is SessionStatus.PENDING and one.session_id in reasons
    }
    views: list[SessionView] = []
    for one in sessions:
        reason, counts = reasons.get(one.session_id), counts_of[one.session_id]
        views.append(session_view(one, reason, counts=counts, times_out_ms=times_out_ms.get(one.session_id)))
        if len(views) % _CHUNK == 0:
            await asyncio.sleep(0)  # noqa: TID251  # yields, so that a long page does not block the event loop
    return views


async def _reasons(unit: UnitOfWork, sessions: Sequence[SessionSummary]) -> dict[SessionId, StoredVerdict]:
    """Why sessions wait, and how far images are that sessions pull."""
    waiting = [one.session_id for one in sessions if one.status is SessionStatus.PENDING]
    reasons = dict(await unit.verdicts.of(waiting)) if waiting else {}
    reasons |= await _named_dependencies(unit, sessions, reasons)
    pulling = [one.session_id for one in sessions if one.status is SessionStatus.PULLING]
    for session_id in pulling[:PROGRESS_MAX]:
        reasons |= await _progress(unit, session_id)
    return reasons


async def _named_dependencies(
    unit: UnitOfWork, sessions: Sequence[SessionSummary], reasons: Mapping[SessionId, StoredVerdict]
) -> dict[SessionId, StoredVerdict]:
    """The reasons of sessions that wait for others, with names beside the ids of those.

    Only those of the session's own user are named, which every caller sees who sees it.
    """
    waiting = [
        one
        for one in sessions
        if one.session_id in reasons and reasons[one.session_id].code == Code.DEPENDENCY and one.spec.dependencies
    ]
    wanted = tuple(dict.fromkeys(name for one in waiting for name in one.spec.dependencies))[:PAGE]
    found = await unit.sessions.summaries(SessionFilter(ids=wanted), limit=len(wanted)) if wanted else ()
    names: dict[str, dict[str, str]] = {}
    for other in found:
        if other.spec.name:
            names.setdefault(other.spec.owner.user, {})[other.session_id] = other.spec.name
    named = {}
    for one in waiting:
        own = names.get(one.spec.owner.user, {})
        reason = reasons[one.session_id]
        mine: dict[str, str] = {name: own[name] for name in one.spec.dependencies if name in own}
        named[one.session_id] = replace(reason, summary=with_names(reason.summary, mine))
    return named


async def _progress(unit: UnitOfWork, session_id: SessionId) -> dict[SessionId, StoredVerdict]:
    """The last image progress in the session's history; None if there is none."""
    _, last = (await unit.sessions.history(session_id))[-1]
    if last.before != last.after:
        return {}
    return {session_id: StoredVerdict(session_id, last.change.code, last.change.detail, "")}
