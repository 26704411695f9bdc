"""Converts sessions, kernels and histories to wire types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sokovan.api.mapping.requests import partition_body, topology_text
from sokovan.api.mapping.times import time_text, time_text_or_none
from sokovan.domain.arrays import array_name
from sokovan.domain.lifecycle.eviction import EvictionCost, EvictionReceipt
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import (
    ENDED_BY_USER,
    FailedStart,
    HistoryEntry,
    KernelRecord,
    KernelSummary,
    SessionRecord,
    SessionResult,
    SessionSummary,
    SpecSummary,
)
from sokovan.domain.session import (
    MASTER_LEASE,
    MASTER_PORT,
    EndPolicy,
    KernelSpec,
    SessionOptions,
)
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.wire.api.evictions import EvictionCostView, EvictionView
from sokovan.wire.api.sessions import (
    ArrayMemberView,
    FailedStartView,
    HistoryLine,
    HistoryView,
    KernelView,
    RetryBody,
    SessionRowView,
    SessionView,
)

# Kernels of a session that its view has, and each one of a list: the first of them.
KERNELS_SHOWN = 100
KERNELS_LISTED = 8
# The result of what users ended.
CANCELLED = "cancelled"

# Statuses that have a pending reason: capacity, or an image.
WAITING = frozenset({SessionStatus.PENDING, SessionStatus.PULLING})
# 128 + SIGKILL and SIGTERM: exit codes of kernels stopped because another one failed.
_STOPPED = frozenset({137, 143})
# Options that have another form in the view; all others are shown as they are, under their own name.
CONVERTED = frozenset(
    {
        "name",
        "retry",
        "mounts",
        "on_agent_lost",
        "topology",
        "where",
        "tolerations",
        "affinity",
        "anti_affinity",
        "gates",
        "partitions",
        "preemption",
        "on_preempt",
    }
)
_SAME = tuple(
    sorted({one.name for one in fields(SessionOptions)} & {one.name for one in fields(SessionView)} - CONVERTED)
)

# Options that are shown as texts.
_TEXTS = ("where", "tolerations", "affinity", "anti_affinity", "gates", "secrets")


def session_view(
    record: SessionRecord | SessionSummary,
    verdict: StoredVerdict | None = None,
    *,
    counts: KernelSummary | None = None,
    times_out_ms: int | None = None,
) -> SessionView:
    """The view of a session, with its pending reason or its first end cause.

    Without `counts`, the record has all of its kernels.
    """
    spec = SpecSummary.of(record.spec) if isinstance(record, SessionRecord) else record.spec
    first, kernels = spec.runs[0].kernel, counts or KernelSummary.of(record.kernels)
    waits = verdict if record.status in WAITING else None
    return SessionView(
        **{name: getattr(spec, name) for name in _SAME},
        **_texts(spec),
        **_evictions(record, spec),
        partitions=[partition_body(one) for one in spec.partitions],
        group_minimums=dict(spec.group_minimums),
        environment=sorted(first.environment),
        mounts=[f"{one.source}:{one.target}:{'ro' if one.read_only else 'rw'}" for one in spec.mounts],
        require=dict(first.require),
        architecture=first.architecture,
        ends_with=spec.ends_with.value,
        on_agent_lost=spec.on_agent_lost.value,
        id=record.session_id,
        name=spec.name or record.session_id,
        type=spec.session_type.value,
        status=record.status.value,
        result=_result_text(record),
        goal=record.goal.name.lower(),
        user=spec.owner.user,
        group=spec.owner.group,
        domain=spec.owner.domain,
        scaling_group=spec.scaling_group,
        queue=spec.queue,
        image=first.image,
        command=list(first.command),
        slots=dict(spec.requested_slots()),
        size=spec.size,
        minimum=spec.gang_size,
        kernels=kernel_views(record.kernels[:KERNELS_SHOWN], spec),
        kernel_counts={status.value: count for status, count in kernels.statuses.items()},
        agents=kernels.agents,
        exited=kernels.exited,
        depends_on=list(spec.awaited),
        topology=topology_text(spec.topology) if spec.topology is not None else None,
        hypernode=record.hypernode,
        group_domains=dict(record.group_domains),
        submitted_at=time_text(record.submitted_ms),
        scheduled_at=time_text_or_none(record.scheduled_ms),
        since=time_text(record.since_ms),
        ended_at=time_text_or_none(record.ended_ms),
        starts_at=time_text_or_none(spec.starts_at_ms),
        reason=waits.code if waits is not None else record.cause,
        reason_detail=waits.summary if waits is not None else record.cause_detail,
        exit_code=exit_code_of(record, kernels),
        attempt=kernels.attempt,
        retry=RetryBody(attempts=spec.retry.attempts, backoff=spec.retry.backoff_s, elsewhere=spec.retry.elsewhere),
        version=record.version,
        times_out_at=time_text_or_none(times_out_ms),
        array=_member_view(spec),
    )


def session_row(record: SessionSummary, verdict: StoredVerdict | None, *, agents: int) -> SessionRowView:
    """The row of a session, with its pending reason or its first end cause."""
    spec, waits = record.spec, verdict if record.status in WAITING else None
    return SessionRowView(
        id=record.session_id,
        name=spec.name or record.session_id,
        status=record.status.value,
        result=_result_text(record),
        user=spec.owner.user,
        group=spec.owner.group,
        scaling_group=spec.scaling_group,
        queue=spec.queue,
        priority=spec.priority,
        size=spec.size,
        slots=dict(spec.requested_slots()),
        agents=agents,
        submitted_at=time_text(record.submitted_ms),
        scheduled_at=time_text_or_none(record.scheduled_ms),
        since=time_text(record.since_ms),
        ended_at=time_text_or_none(record.ended_ms),
        reason=waits.code if waits is not None else record.cause,
        reason_detail=waits.summary if waits is not None else record.cause_detail,
        array=None if spec.array is None else spec.array.array_id,
    )


def _texts(spec: SpecSummary) -> dict[str, Any]:
    texts = {name: [str(one) for one in getattr(spec, name)] for name in _TEXTS}
    deadline = time_text_or_none(spec.deadline_ms)
    return {**texts, "preemption": spec.preemption.value, "deadline": deadline}


def _evictions(record: SessionRecord | SessionSummary, spec: SpecSummary) -> dict[str, Any]:
    """The attempts that failed or were evicted, and what follows an eviction."""
    return {
        "on_preempt": "requeue" if spec.returns else "end",
        "failed_starts": [_failed_start_view(failed) for failed in record.failed_starts],
        "evictions": [_eviction_view(one, spec) for one in record.evictions],
        "checkpoint_at": time_text_or_none(record.checkpoint_ms),
        "loan": "" if record.status is SessionStatus.PENDING else record.loan or "",
    }


def _member_view(spec: SpecSummary) -> ArrayMemberView | None:
    array = spec.array
    if array is None:
        return None
    name = array_name(spec.name)
    return ArrayMemberView(id=array.array_id, name=name, index=array.index, size=array.size, limit=array.at_once)


def _result_text(record: SessionRecord | SessionSummary) -> str | None:
    """How it ended; a session that a user ended has not failed, although dependents do not start."""
    if record.result is SessionResult.FAILURE and record.cause in ENDED_BY_USER:
        return CANCELLED
    return None if record.result is None else record.result.value


def kernel_views(kernels: Sequence[KernelRecord], spec: SpecSummary) -> list[KernelView]:
    """The views of kernels of a session, in the order of their index."""
    specs = spec.kernels(one.index for one in kernels)
    return [_kernel_view(one, kernel) for one, kernel in zip(kernels, specs, strict=True)]


def _kernel_view(record: KernelRecord, spec: KernelSpec) -> KernelView:
    return KernelView(
        id=record.kernel_id,
        index=record.index,
        role=spec.group or ("sub" if record.index else "main"),
        group=spec.group,
        status=record.status.value,
        agent=record.agent_id,
        attempt=record.attempt,
        exit_code=record.exit_code,
        slots=dict(record.slots),
        devices={slot: list(devices) for slot, devices in record.devices.items()},
        image=spec.image,
        since=time_text(record.since_ms),
        rank=record.rank,
        ports={MASTER_PORT if name == MASTER_LEASE else name: port for name, port in record.host_ports.items()},
        priority=spec.priority,
        nominated=spec.nominated,
        labels=dict(spec.labels),
    )


def _failed_start_view(failed: FailedStart) -> FailedStartView:
    return FailedStartView(
        attempt=failed.attempt,
        agent=failed.agent_id,
        code=failed.code,
        detail=failed.detail,
        at=time_text(failed.at_ms),
        avoided_until=time_text(failed.avoid_until_ms),
    )


def _eviction_view(receipt: EvictionReceipt, spec: SpecSummary) -> EvictionView:
    return EvictionView(
        number=receipt.number,
        action=receipt.action,
        at=time_text(receipt.at_ms),
        for_session=receipt.for_session if receipt.for_user == spec.owner.user else "",
        for_name=receipt.taker_named_to(spec.owner.user),
        kernels=receipt.kernels,
        whole=receipt.whole,
        lost_slot_s=receipt.lost_s,
        reported=receipt.reported,
        ends_by=time_text(receipt.evict_at_ms),
        ended_at=time_text_or_none(receipt.ended_ms),
        step=receipt.step,
        saves_every_s=receipt.saves_every_s,
        completed=receipt.completed,
        rule=receipt.rule,
        cost=eviction_cost_view(receipt.cost),
        next_best=eviction_cost_view(receipt.runner_up),
        for_booking=receipt.for_booking,
    )


def eviction_cost_view(cost: EvictionCost | None) -> EvictionCostView | None:
    """The view of the cost of a set of victims; None if it is unknown."""
    if cost is None:
        return None
    return EvictionCostView(
        only_loans=cost.only_loans,
        whole_gangs=cost.whole_gangs,
        queue_distance=cost.queue_distance,
        queue_priority=cost.queue_priority,
        priority=cost.priority,
        kernel_priority=cost.kernel_priority,
        lost_slot_minutes=cost.lost_slot_minutes,
        kernels=cost.kernels,
    )


def is_final(record: SessionRecord | SessionSummary) -> bool:
    """Whether the session has ended."""
    return record.status in SESSION.terminal


def exit_code_of(record: SessionRecord | SessionSummary, counts: KernelSummary | None = None) -> int | None:
    """The exit code of a session; None until it has ended.

    It agrees with the result: a success is 0, whatever other kernels ended with.
    Otherwise it is the main kernel's, if the session ends with it alone; else the failure
    of a kernel before the codes of those that were stopped for it, and any failure before
    success; of equals, the first kernel's.
    """
    codes = (counts or KernelSummary.of(record.kernels)).exit_codes
    if not is_final(record) or not codes:
        return None
    if record.result is SessionResult.SUCCESS:
        return 0
    alone = record.spec.ends_with is EndPolicy.MAIN and record.spec.tolerates_failures
    if alone and record.kernels[0].exit_code:
        return record.kernels[0].exit_code
    failed = [code for code in codes if code != 0]
    return next((code for code in failed if code not in _STOPPED), failed[0] if failed else 0)


def history_view(
    record: SessionRecord | SessionSummary,
    entries: Sequence[tuple[str, HistoryEntry]],
    following: str | None = None,
) -> HistoryView:
    """A page of the history of a session and of its kernels.

    `following` is the cursor of the next page.
    """
    return HistoryView(
        session=record.session_id,
        lines=[history_line(subject, entry) for subject, entry in entries],
        next=following,
    )


def history_line(subject: str, entry: HistoryEntry) -> HistoryLine:
    """One history entry."""
    return HistoryLine(
        subject=subject,
        sequence=entry.sequence,
        before=entry.before,
        after=entry.after,
        trigger=entry.trigger,
        who=entry.change.who,
        code=entry.change.code,
        detail=entry.change.detail,
        at=time_text(entry.at_ms),
        last_at=time_text(entry.last_ms),
        times=entry.times,
    )
