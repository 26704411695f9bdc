"""Decides when ended kernels end their session, and by which steps. Pure.

A session that continues keeps the slots of its ended kernels until it ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sokovan.domain.ids import KernelId
from sokovan.domain.lifecycle.kernel import ALIVE, FollowUp, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.retry import RetryVerdict
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import COMPLETED, DETAIL_MAX, KERNEL_FAILED, Change, KernelRecord, SessionRecord
from sokovan.domain.session import EndPolicy
from sokovan.domain.slot_notation import format_amount
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_report
from sokovan.ports.runtime import DISK_LIMIT, OUT_OF_MEMORY, PROBABLY_OUT_OF_MEMORY

EXITED = "kernel-exited"
_LISTED_MAX = 5
_MEMORY_REASONS = frozenset({OUT_OF_MEMORY, PROBABLY_OUT_OF_MEMORY})
# Kernels in these states do not delay the end: they have ended, or never started.
_ABSENT = frozenset({KernelStatus.PENDING, KernelStatus.TERMINATING, KernelStatus.TERMINATED, KernelStatus.CANCELLED})


class Exit(NamedTuple):
    """Exit code of a kernel; `reason` if more is known."""

    code: int
    reason: str = ""


def alive_kernels(session: SessionRecord) -> tuple[KernelId, ...]:
    """The kernels that are placed and have not ended."""
    return tuple(kernel.kernel_id for kernel in session.kernels if kernel.status in ALIVE)


def pending_kernels(session: SessionRecord) -> tuple[KernelId, ...]:
    """The kernels that are not placed yet."""
    return tuple(kernel.kernel_id for kernel in session.kernels if kernel.status is KernelStatus.PENDING)


def give_up_steps(session: SessionRecord, change: Change) -> tuple[SessionStep, ...]:
    """The steps that end a session which cannot be handled; empty if it is ending."""
    failed = SessionStep(KernelTrigger.FAILED, change, alive_kernels(session))
    withdrawn = SessionStep(KernelTrigger.WITHDRAWN, change, pending_kernels(session))
    return tuple(step for step in (failed, withdrawn) if step.kernels)


def failed_start(session: SessionRecord, step: SessionStep) -> SessionStep:
    """The step of a session whose kernels in `step` could not be started.

    By its policy it is retried whole: all of its kernels end, and wait again once it is
    proved that nothing of them runs. Kernels that were to join a session that runs already
    are retried, or given up, alone.
    """
    if _joins(session, step.kernels):
        return _failed_alone(session, step)
    policy, attempt = session.spec.retry, session.tries(session.attempt)
    avoided_ms = dict.fromkeys(step.kernels, policy.backoff_ms(attempt))
    verdict = policy.verdict(attempt)
    if verdict is RetryVerdict.GIVE_UP:
        return replace(step, failed_starts_ms=avoided_ms)
    detail = f"{step.change.detail} (attempt {attempt} of {policy.attempts}; it is retried {verdict})"
    change = replace(step.change, detail=detail[-DETAIL_MAX:])
    return SessionStep(KernelTrigger.RETRY_REQUESTED, change, alive_kernels(session), failed_starts_ms=avoided_ms)


def _joins(session: SessionRecord, kernels: Collection[KernelId]) -> bool:
    """Whether the session goes on without these kernels.

    Not without the kernel of rank 0, where all of them meet, nor the one it ends with: the
    others would wait in vain.
    """
    if session.status is not SessionStatus.RUNNING:
        return False
    main = session.kernels[0].kernel_id if session.spec.ends_with is EndPolicy.MAIN else None
    joining = frozenset(kernels)
    return not any(one.rank == 0 or one.kernel_id == main for one in session.kernels if one.kernel_id in joining)


def _failed_alone(session: SessionRecord, step: SessionStep) -> SessionStep:
    policy = session.spec.retry
    failed = frozenset(step.kernels)
    attempts = {one.kernel_id: session.tries(one.attempt) for one in session.kernels if one.kernel_id in failed}
    last = max(attempts.values())
    given_up = policy.verdict(last) is RetryVerdict.GIVE_UP
    fate = "it is given up, and the session goes on" if given_up else f"it is retried {policy.verdict(last)}"
    detail = f"{step.change.detail} (attempt {last} of {policy.attempts}; {fate})"
    return SessionStep(
        KernelTrigger.RETRY_REQUESTED,
        replace(step.change, detail=detail[-DETAIL_MAX:]),
        step.kernels,
        failed_starts_ms={one: policy.backoff_ms(attempt) for one, attempt in attempts.items()},
        follow_ups={
            one: FollowUp.CANCEL if policy.verdict(attempt) is RetryVerdict.GIVE_UP else FollowUp.REQUEUE
            for one, attempt in attempts.items()
        },
    )


def decisive_exits(session: SessionRecord, exits: Mapping[KernelId, Exit]) -> tuple[KernelId, ...]:
    """The kernels whose exit ends the session; empty if it continues.

    A failure ends the session, unless failures are tolerated; then it counts as any exit.
    """
    spec = session.spec
    failed = () if spec.tolerates_failures else tuple(kernel for kernel, one in exits.items() if one.code != 0)
    main = session.kernels[0].kernel_id
    if spec.ends_with is EndPolicy.MAIN:
        return failed or ((main,) if main in exits else ())
    if spec.ends_with is EndPolicy.ANY:
        return failed or tuple(exits)
    over = all(kernel.kernel_id in exits or kernel.status in _ABSENT for kernel in session.kernels)
    return failed or (tuple(exits) if over else ())


def ended_before_notice(session: SessionRecord, exits: Mapping[KernelId, Exit]) -> tuple[KernelId, ...]:
    """The kernels of an evicted session whose own exits end it.

    Empty if it is only evicted.
    `exits` are those of kernels that ended before they were asked to stop. The others end
    by the eviction, so that a session that ends with all of its kernels has not ended.
    """
    if not exits:
        return ()
    if session.spec.ends_with is EndPolicy.ALL and any(kernel.kernel_id not in exits for kernel in session.kernels):
        return ()
    return decisive_exits(session, exits)


def end_steps(session: SessionRecord, exits: Mapping[KernelId, Exit]) -> tuple[SessionStep, ...]:
    """The steps that end a session with these exits; empty if it continues."""
    decisive = decisive_exits(session, exits)
    if not decisive:
        return ()
    deciding = frozenset(decisive)
    # Failures first: those that move first determine the result of the session.
    found = (kernel for kernel in session.kernels if kernel.kernel_id in deciding)
    first = sorted(found, key=lambda kernel: exits[kernel.kernel_id].code == 0)
    rest = {kernel: one for kernel, one in exits.items() if kernel not in deciding}
    return _exited(first, exits, *_reason(first, exits)), *exit_steps(session, rest)


def exit_steps(session: SessionRecord, exits: Mapping[KernelId, Exit]) -> tuple[SessionStep, ...]:
    """The steps of exited kernels, without a decision about the session."""
    exited = [kernel for kernel in session.kernels if kernel.kernel_id in exits]
    by_cause = _by_cause(exited, exits)
    others = by_cause.pop(EXITED)
    limited = [_exited(some, exits, cause, _summary(some, exits)) for cause, some in by_cause.items() if some]
    return *limited, _exited(others, exits, EXITED)


def _exited(
    kernels: Collection[KernelRecord], exits: Mapping[KernelId, Exit], code: str, detail: str = ""
) -> SessionStep:
    ids = tuple(kernel.kernel_id for kernel in kernels)
    return SessionStep(KernelTrigger.EXITED, by_report(code, detail), ids, {one: exits[one].code for one in ids})


def _reason(kernels: Sequence[KernelRecord], exits: Mapping[KernelId, Exit]) -> tuple[str, str]:
    bad = [kernel for kernel in kernels if exits[kernel.kernel_id].code != 0]
    if not bad:
        return COMPLETED, ""
    by_cause = _by_cause(bad, exits)
    # Kernels beyond a limit first: the others usually failed because of them.
    summary = _summary([kernel for some in by_cause.values() for kernel in some], exits)
    return next((cause for cause in (OUT_OF_MEMORY, DISK_LIMIT) if by_cause[cause]), KERNEL_FAILED), summary


def _by_cause(kernels: Sequence[KernelRecord], exits: Mapping[KernelId, Exit]) -> dict[str, list[KernelRecord]]:
    """The kernels that exceeded a limit, by that limit, and at last the others."""
    found: dict[str, list[KernelRecord]] = {OUT_OF_MEMORY: [], DISK_LIMIT: [], EXITED: []}
    for kernel in kernels:
        found[_cause(exits[kernel.kernel_id].reason)].append(kernel)
    return found


def _cause(reason: str) -> str:
    if not reason:  # of most
        return EXITED
    if reason in _MEMORY_REASONS:
        return OUT_OF_MEMORY
    return DISK_LIMIT if reason.startswith(DISK_LIMIT) else EXITED


def _summary(kernels: Sequence[KernelRecord], exits: Mapping[KernelId, Exit]) -> str:
    summary = ", ".join(_exit_text(kernel, exits[kernel.kernel_id]) for kernel in kernels[:_LISTED_MAX])
    return summary if len(kernels) <= _LISTED_MAX else f"{summary}, and {len(kernels) - _LISTED_MAX} more"


def _exit_text(kernel: KernelRecord, one: Exit) -> str:
    if one.reason in _MEMORY_REASONS:
        limit = kernel.slots["mem"]  # 0 means no limit: the whole machine ran out of memory
        probably = "probably " if one.reason == PROBABLY_OUT_OF_MEMORY else ""
        text = f"kernel {kernel.index} {probably}ran out of memory"
        return f"{text}: its limit was {format_amount('mem', limit)}B, which --mem can raise" if limit else text
    if one.reason.startswith(DISK_LIMIT):
        return f"kernel {kernel.index} was ended: {one.reason.removeprefix(DISK_LIMIT).lstrip(': ')}"
    text = f"kernel {kernel.index} ended with code {one.code}"
    return f"{text} ({one.reason})" if one.reason else text
