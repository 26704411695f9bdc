"""Puts explanations together, from verdicts and from the stories of sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import HistoryEntry, KernelRecord, SessionRecord, SessionResult
from sokovan.orchestrator.sessions.endings import FAILED
from sokovan.orchestrator.sessions.explain.explanations import (
    ABOVE_LIMIT,
    Ahead,
    Explanation,
    PastReason,
    Stage,
    meaning_of,
)
from sokovan.orchestrator.sessions.handlers.deadlines import TIME_LIMIT
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.runtime import OUT_OF_MEMORY
from sokovan.scheduling.codec import InvalidSnapshot, verdict_from_json
from sokovan.scheduling.trace import Advice, Check, Code, Funnel, Verdict

# A trouble that was not seen again for this long is over, whether or not anybody said so.
TROUBLE_S = 60
SHOWN_MAX = 8
# What a signal ends has this and the number of the signal as its exit code.
SIGNALLED = 128
SIGNAL_MAX = 64

_STAGE_OF: Mapping[SessionStatus, Stage] = {
    SessionStatus.PENDING: Stage.NOT_SEEN_YET,
    SessionStatus.SCHEDULED: Stage.PREPARING,
    SessionStatus.PREPARING: Stage.PREPARING,
    SessionStatus.PULLING: Stage.IMAGE_PULLING,
    SessionStatus.PREPARED: Stage.STARTING,
    SessionStatus.CREATING: Stage.STARTING,
    SessionStatus.RUNNING: Stage.RUNNING,
    SessionStatus.TERMINATING: Stage.ENDING,
    SessionStatus.TERMINATED: Stage.FAILED,
    SessionStatus.CANCELLED: Stage.CANCELLED,
}
# What a note in a story means to the reader; any other tells of progress.
_TROUBLES: Mapping[str, Stage] = {
    "image-unavailable": Stage.IMAGE_NOT_FOUND,
    "agent-unreachable": Stage.AGENT_UNREACHABLE,
    "mass-loss": Stage.AGENT_UNREACHABLE,
    "handler-failed": Stage.RETRY_BACKOFF,
    "handler-timeout": Stage.RETRY_BACKOFF,
}
# What a cause says about a session that ended by it; any other is just a failure.
_CAUSES: Mapping[str, Stage] = {
    "image-unavailable": Stage.IMAGE_NOT_FOUND,
    OUT_OF_MEMORY: Stage.OUT_OF_MEMORY,
    TIME_LIMIT: Stage.TIME_LIMIT_REACHED,
    FAILED: Stage.COMMAND_FAILED,
}
_STOPPED = frozenset({"user-requested", "forced-by-user", "stop_requested"})


def read_verdict(stored: StoredVerdict | None) -> Verdict | None:
    """The verdict that is kept; None where there is none that this version can read."""
    if stored is None:
        return None
    try:
        return verdict_from_json(stored.document)
    except InvalidSnapshot:
        if stored.code not in Code.__members__:
            return None
        return Verdict(stored.session_id, Code(stored.code), stored.summary)


def explain_waiting(
    session: SessionRecord,
    verdict: Verdict,
    *,
    as_of_ms: int,
    ahead: Sequence[SessionRecord] = (),
    awaited: Sequence[SessionRecord] = (),
) -> Explanation:
    """Why a session waits, as the scheduler said it last.

    `awaited` are the sessions it depends on.
    """
    names = {other.session_id: _name_for(session, other) for other in awaited}
    in_vain = verdict.code is Code.DEPENDENCY and any(map(_ended_badly, awaited))
    return Explanation(
        session_id=session.session_id,
        status=session.status,
        verdict=Advice.CHANGE if in_vain else verdict.advice,
        code=verdict.code.value,
        summary=_with_names(verdict.summary, names),
        checks=tuple(check._replace(detail=_with_names(check.detail, names)) for check in verdict.checks),
        funnel=funnel_view(verdict.funnel),
        position=verdict.position,
        ahead=tuple(_ahead(session, other) for other in ahead),
        as_of_ms=as_of_ms,
    )


def above_its_limit(told: Explanation) -> Explanation:
    """The same, where the owner may never use so much: no end of others helps."""
    return replace(told, verdict=Advice.CHANGE, summary=f"{told.summary}; {ABOVE_LIMIT}")


def explain_stage(session: SessionRecord, story: Sequence[HistoryEntry], *, now_ms: int) -> Explanation:
    """Where a session stands that does not wait for a place, and what troubles it."""
    code = _stage(session, trouble_of(session, story, now_ms=now_ms))
    advice, meaning = meaning_of(code)
    return Explanation(
        session_id=session.session_id,
        status=session.status,
        verdict=advice,
        code=code.value,
        summary="; ".join(part for part in (_state(session), _said(session, story)) if part) or meaning,
        checks=_kernel_checks(session.kernels),
        as_of_ms=now_ms,
    )


def trouble_of(session: SessionRecord, story: Sequence[HistoryEntry], *, now_ms: int) -> Stage | None:
    """What keeps a session from going on, if something did a moment ago."""
    note = _last_note(session, story)
    if note is None or now_ms - note.last_ms > TROUBLE_S * 1000:
        return None
    return _TROUBLES.get(note.change.code)


def past_reasons(story: Sequence[HistoryEntry]) -> tuple[PastReason, ...]:
    """The reasons for which a session stayed where it was, each counted, in order."""
    found: dict[str, PastReason] = {}
    for entry in story:
        if not _is_note(entry):
            continue
        known = found.get(entry.change.code)
        found[entry.change.code] = PastReason(
            code=entry.change.code,
            summary=entry.change.detail,
            count=entry.times + (0 if known is None else known.count),
            first_ms=entry.at_ms if known is None else known.first_ms,
            last_ms=entry.last_ms,
        )
    return tuple(found.values())


def funnel_view(funnel: Funnel | None) -> dict[str, int]:
    """How many agents are left after each question, by the question."""
    return {} if funnel is None else dict(funnel._asdict())


def _is_note(entry: HistoryEntry) -> bool:
    """A line that moved nothing says why an object stays."""
    return entry.before == entry.after and entry.change.by is not Cause.CONTROLLER and entry.change.code != ""


def _ahead(session: SessionRecord, other: SessionRecord) -> Ahead:
    if other.spec.priority > session.spec.priority:
        why = f"has priority {other.spec.priority}, this one {session.spec.priority}"
    elif other.place < session.place:
        why = f"is earlier in queue {other.spec.queue}"
    else:
        why = f"goes first in queue {other.spec.queue} by the order of its scheduler"
    return Ahead(session=_name_for(session, other), why=why)


def _name_for(session: SessionRecord, other: SessionRecord) -> str:
    """What the owner of a session is told of another; a stranger's name may tell what somebody works on."""
    mine = other.spec.owner.user == session.spec.owner.user
    return other.spec.name if mine and other.spec.name else other.session_id


def _with_names(text: str, names: Mapping[SessionId, str]) -> str:
    for session_id, name in names.items():
        text = text.replace(session_id, f"{name} ({session_id})") if name != session_id else text
    return text


def _ended_badly(session: SessionRecord) -> bool:
    return session.ended_ms is not None and session.result is not SessionResult.SUCCESS


def _last_note(session: SessionRecord, story: Sequence[HistoryEntry]) -> HistoryEntry | None:
    """The last that was said of the session since it came into its status."""
    last = story[-1] if story else None
    return last if last is not None and _is_note(last) and last.after == session.status else None


def _stage(session: SessionRecord, trouble: Stage | None) -> Stage:
    if session.status is SessionStatus.TERMINATED:
        if session.cause in _STOPPED:
            return Stage.STOPPED
        if session.result is SessionResult.SUCCESS:
            return Stage.SUCCEEDED
        return _CAUSES.get(session.cause or "", Stage.FAILED)
    return trouble or _STAGE_OF[session.status]


def _state(session: SessionRecord) -> str:
    """How far it is, and where; for one that ends, why."""
    if session.status is SessionStatus.PENDING:
        return ""
    if session.ended_ms is not None or session.status is SessionStatus.TERMINATING:
        cause = session.cause or "no cause is known"
        verb = "is being ended" if session.ended_ms is None else "ended"
        return f"{verb}: {cause}: {session.cause_detail}" if session.cause_detail else f"{verb}: {cause}"
    where = _listed_short([str(kernel.agent_id) for kernel in session.kernels if kernel.agent_id is not None])
    return f"{_counts(session.kernels)} on {where}"


def _said(session: SessionRecord, story: Sequence[HistoryEntry]) -> str:
    """The last note: what goes on, or what is in the way, and how often it was found."""
    note = _last_note(session, story)
    if note is None:
        return ""
    again = f" ({note.times} times)" if note.times > 1 else ""
    return f"{note.change.detail or note.change.code}{again}"


def _counts(kernels: Sequence[KernelRecord]) -> str:
    counts = Counter(kernel.status for kernel in kernels)
    return ", ".join(f"{count} of {len(kernels)} kernels {status}" for status, count in counts.items())


def _kernel_checks(kernels: Sequence[KernelRecord]) -> tuple[Check, ...]:
    """How many kernels are how far, and which ended badly."""
    checks = [Check("kernels", "ok", _counts(kernels))]
    bad = [kernel for kernel in kernels if kernel.exit_code not in {None, 0}]
    checks += [
        Check(f"kernel {kernel.index}", "no", f"{_exit_text(kernel.exit_code)} on {kernel.agent_id}")
        for kernel in bad[:SHOWN_MAX]
    ]
    missing = sum(kernel.status is KernelStatus.PENDING for kernel in kernels)
    if 0 < missing < len(kernels):
        checks.append(Check("growth", "short", f"{missing} kernels beyond the minimum wait for room"))
    return tuple(checks)


def _exit_text(code: int | None) -> str:
    signal = 0 if code is None else code - SIGNALLED
    return f"exit code {code} (128 + signal {signal})" if 0 < signal <= SIGNAL_MAX else f"exit code {code}"


def _listed_short(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(distinct[:SHOWN_MAX])
    return f"{shown} and {len(distinct) - SHOWN_MAX} more" if len(distinct) > SHOWN_MAX else shown or "no agent"
