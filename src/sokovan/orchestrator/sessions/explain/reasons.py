"""Builds explanations from verdicts and session histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.eviction import kernels_text
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import (
    ENDED_BY_USER,
    KERNEL_FAILED,
    SUBMITTED,
    ArrayRecord,
    HeldPort,
    HistoryEntry,
    KernelRecord,
    SessionRecord,
    SessionResult,
)
from sokovan.orchestrator.sessions.explain.explanations import (
    Ahead,
    Explanation,
    PastReason,
    Stage,
    meaning_of,
)
from sokovan.orchestrator.sessions.handlers.deadlines import IDLE_TIMEOUT, LIFETIME_LIMIT, TIME_LIMIT
from sokovan.orchestrator.sessions.handlers.schedule import VALIDATION_FAILED
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.runtime import DISK_LIMIT, OUT_OF_MEMORY
from sokovan.scheduling.codec import InvalidSnapshot, verdict_from_json
from sokovan.scheduling.trace import Advice, Check, Code, Funnel, Verdict

# A problem that was not noted again for this long counts as resolved.
PROBLEM_S = 60
SHOWN_MAX = 8
# Stands for a session that the caller may not see, instead of its name and id.
HIDDEN = "a session of another user"
# The exit code of a process killed by a signal is this plus the signal number.
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
# Stages of history notes that report a problem; other notes report progress.
_PROBLEMS: Mapping[str, Stage] = {
    "image-unavailable": Stage.IMAGE_NOT_FOUND,
    "agent-unreachable": Stage.AGENT_UNREACHABLE,
    "mass-loss": Stage.AGENT_UNREACHABLE,
    "handler-failed": Stage.RETRY_BACKOFF,
    "handler-timeout": Stage.RETRY_BACKOFF,
}
# Stages of sessions that ended for a cause; other causes are plain failures.
_CAUSES: Mapping[str, Stage] = {
    "image-unavailable": Stage.IMAGE_NOT_FOUND,
    OUT_OF_MEMORY: Stage.OUT_OF_MEMORY,
    DISK_LIMIT: Stage.DISK_LIMIT_REACHED,
    TIME_LIMIT: Stage.TIME_LIMIT_REACHED,
    LIFETIME_LIMIT: Stage.LIFETIME_REACHED,
    IDLE_TIMEOUT: Stage.IDLE_TIMEOUT,
    KERNEL_FAILED: Stage.COMMAND_FAILED,
}
_STOPPED = ENDED_BY_USER | {"stop_requested"}


def read_verdict(stored: StoredVerdict | None) -> Verdict | None:
    """The stored verdict; None if there is none that this version can read."""
    if stored is None:
        return None
    try:
        return verdict_from_json(stored.document)
    except InvalidSnapshot:
        if stored.code not in Code.__members__:
            return None
        return Verdict(stored.session_id, Code(stored.code), stored.summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedSessions:
    """The sessions that a pending session waits behind.

    `awaited` are those it depends on or whose reservation it waits for, and `arrays` the
    arrays. `ports` are the ports it needs that are held, with the sessions of `holders`. Of
    the sessions only those in `visible` are named.
    """

    ahead: Sequence[SessionRecord] = ()
    awaited: Sequence[SessionRecord] = ()
    arrays: Sequence[ArrayRecord] = ()
    ports: Sequence[HeldPort] = ()
    holders: Sequence[SessionRecord] = ()
    visible: Collection[SessionId] = ()


def explain_waiting(
    session: SessionRecord,
    verdict: Verdict,
    *,
    as_of_ms: int,
    now_ms: int = 0,
    related: RelatedSessions | None = None,
) -> Explanation:
    """Explain a pending session by its last verdict."""
    related = related or RelatedSessions()
    names: dict[str, str] = {other.session_id: _name_for(other, related.visible) for other in related.awaited}
    names |= {one.array_id: one.name for one in related.arrays if one.owner.user == session.spec.owner.user}
    blocked = verdict.code is Code.DEPENDENCY and any(map(_has_failed, related.awaited))
    ports = _port_checks(related, now_ms)
    return Explanation(
        session_id=session.session_id,
        status=session.status,
        verdict=Advice.CHANGE if blocked else verdict.advice,
        code=verdict.code.value,
        summary="; ".join((with_names(verdict.summary, names), *(one.detail for one in ports[:1]))),
        checks=(
            *(check._replace(detail=with_names(check.detail, names)) for check in verdict.checks),
            *ports,
            *_failed_starts(session),
        ),
        funnel=funnel_view(verdict.funnel),
        position=verdict.position,
        ahead=tuple(_ahead(session, other, related.visible) for other in related.ahead),
        as_of_ms=as_of_ms,
        until_ms=verdict.until_ms,
    )


def explain_stage(session: SessionRecord, history: Sequence[HistoryEntry], *, now_ms: int) -> Explanation:
    """Explain a session without a verdict by its status and its last note."""
    code = _stage(session, problem_of(session, history, now_ms=now_ms))
    advice, meaning = meaning_of(code)
    return Explanation(
        session_id=session.session_id,
        status=session.status,
        verdict=advice,
        code=code.value,
        summary="; ".join(part for part in (_state(session), _note_text(session, history)) if part) or meaning,
        checks=(*_kernel_checks(session.kernels), *_failed_starts(session)),
        as_of_ms=now_ms,
    )


def problem_of(session: SessionRecord, history: Sequence[HistoryEntry], *, now_ms: int) -> Stage | None:
    """The stage of a recent problem of the session; None if there is none."""
    note = _last_note(session, history)
    if note is None or now_ms - note.last_ms > PROBLEM_S * 1000:
        return None
    return _PROBLEMS.get(note.change.code)


def past_reasons(history: Sequence[HistoryEntry]) -> tuple[PastReason, ...]:
    """The reasons in a history for which a session did not move, counted, in order."""
    found: dict[str, PastReason] = {}
    for entry in history:
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


def why_group(history: Sequence[HistoryEntry]) -> str:
    """Why the session got its scaling group; empty if there was no choice."""
    return history[0].change.detail if history and history[0].change.code == SUBMITTED else ""


# Counts that are no filters of the funnel: shown only if there are such agents.
_APART = frozenset({"avoided", "failing", "other_runtime", "tainted"})


def funnel_view(funnel: Funnel | None) -> dict[str, int]:
    """The number of agents left after each filter, by filter."""
    if funnel is None:
        return {}
    return {name: count for name, count in funnel._asdict().items() if count or name not in _APART}


def _is_note(entry: HistoryEntry) -> bool:
    """Whether an entry is a note: it changed no state."""
    return entry.before == entry.after and entry.change.by is not Cause.CONTROLLER and entry.change.code != ""


def _ahead(session: SessionRecord, other: SessionRecord, visible: Collection[SessionId]) -> Ahead:
    if other.spec.priority > session.spec.priority:
        why = f"has priority {other.spec.priority}, this one {session.spec.priority}"
    elif other.place < session.place:
        why = f"is earlier in queue {other.spec.queue}"
    else:
        why = f"comes first in queue {other.spec.queue} by the order of its scheduler"
    return Ahead(session=_name_for(other, visible), why=why)


def _name_for(other: SessionRecord, visible: Collection[SessionId]) -> str:
    """The name of another session, or its id; neither if the caller may not see it."""
    return other.spec.name or other.session_id if other.session_id in visible else HIDDEN


def _port_checks(related: RelatedSessions, now_ms: int) -> tuple[Check, ...]:
    """The holders of the ports that it needs, or when a port is free again."""
    names = {one.session_id: _name_for(one, related.visible) for one in related.holders}
    checks = []
    for held in related.ports[:SHOWN_MAX]:
        name = names.get(held.session_id, HIDDEN)
        by = name if name == HIDDEN else f"session {name}"
        detail = f"leased on {held.agent_id} by {by}"
        if held.until_ms is not None:
            left_s = max(0, held.until_ms - now_ms + 999) // 1000
            detail = f"rests on {held.agent_id}, free again in {left_s} s"
        checks.append(Check(f"port {held.port}", "no", detail))
    return tuple(checks)


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The text with names added to the ids of these sessions."""
    for session_id, name in names.items():
        shown = {HIDDEN: HIDDEN, session_id: session_id}.get(name, f"{name} ({session_id})")
        text = text.replace(session_id, shown)
    return text


def _has_failed(session: SessionRecord) -> bool:
    return session.ended_ms is not None and session.result is not SessionResult.SUCCESS


def _last_note(session: SessionRecord, history: Sequence[HistoryEntry]) -> HistoryEntry | None:
    """The last history entry, if it is a note in the current status."""
    last = history[-1] if history else None
    return last if last is not None and _is_note(last) and last.after == session.status else None


def _stage(session: SessionRecord, problem: Stage | None) -> Stage:
    if session.status is SessionStatus.CANCELLED and session.cause == VALIDATION_FAILED:
        return Stage.VALIDATION_FAILED
    if session.status is SessionStatus.TERMINATED:
        if session.cause in _STOPPED:
            return Stage.STOPPED
        if session.result is SessionResult.SUCCESS:
            return Stage.SUCCEEDED
        return _CAUSES.get(session.cause or "", Stage.FAILED)
    return problem or _STAGE_OF[session.status]


def _state(session: SessionRecord) -> str:
    """The progress of the kernels and their agents; the cause if the session ends."""
    if session.status is SessionStatus.PENDING:
        return ""
    if session.ended_ms is not None or session.status is SessionStatus.TERMINATING:
        cause = session.cause or "unknown cause"
        verb = "is terminating" if session.ended_ms is None else "ended"
        return f"{verb}: {cause}: {session.cause_detail}" if session.cause_detail else f"{verb}: {cause}"
    where = _shortened([str(kernel.agent_id) for kernel in session.kernels if kernel.agent_id is not None])
    return f"{_counts(session.kernels)} on {where}"


def _note_text(session: SessionRecord, history: Sequence[HistoryEntry]) -> str:
    """The text of the last note, with its count."""
    note = _last_note(session, history)
    if note is None:
        return ""
    again = f" ({note.times} times)" if note.times > 1 else ""
    return f"{note.change.detail or note.change.code}{again}"


def _counts(kernels: Sequence[KernelRecord]) -> str:
    counts = Counter(kernel.status for kernel in kernels)
    return ", ".join(f"{count} of {len(kernels)} kernels {status}" for status, count in counts.items())


def _kernel_checks(kernels: Sequence[KernelRecord]) -> tuple[Check, ...]:
    """Counts of kernels by status, and the kernels that failed."""
    checks = [Check("kernels", "ok", _counts(kernels))]
    bad = [kernel for kernel in kernels if kernel.exit_code not in {None, 0}]
    checks += [
        Check(f"kernel {kernel.index}", "no", f"{_exit_text(kernel.exit_code)} on {kernel.agent_id}")
        for kernel in bad[:SHOWN_MAX]
    ]
    missing = sum(kernel.status is KernelStatus.PENDING for kernel in kernels)
    if 0 < missing < len(kernels):
        waits = "waits" if missing == 1 else "wait"
        checks.append(Check("growth", "short", f"{kernels_text(missing)} beyond the minimum {waits} for room"))
    return tuple(checks)


def _failed_starts(session: SessionRecord) -> tuple[Check, ...]:
    """The attempts to start it that failed, and where."""
    return tuple(
        Check(f"attempt {one.attempt}", "no", f"{one.agent_id}: {one.detail}")
        for one in session.failed_starts[-SHOWN_MAX:]
    )


def _exit_text(code: int | None) -> str:
    signal = 0 if code is None else code - SIGNALLED
    return f"exit code {code} (128 + signal {signal})" if 0 < signal <= SIGNAL_MAX else f"exit code {code}"


def _shortened(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(distinct[:SHOWN_MAX])
    return f"{shown} and {len(distinct) - SHOWN_MAX} more" if len(distinct) > SHOWN_MAX else shown or "no agent"
