"""Converts job arrays to wire types."""

from __future__ import annotations

from sokovan.api.mapping.sessions import CANCELLED
from sokovan.api.mapping.times import time_text
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import ArrayCounts, ArrayRecord, SessionResult
from sokovan.wire.api.arrays import ArrayView


def array_view(array: ArrayRecord, counts: ArrayCounts) -> ArrayView:
    """The view of an array with the counts of its sessions."""
    status, owner = array_status(counts), array.owner
    return ArrayView(
        id=array.array_id,
        name=array.name,
        status=status.value,
        result=_result_text(counts) if status in SESSION.terminal else None,
        user=owner.user,
        group=owner.group,
        domain=owner.domain,
        scaling_group=array.scaling_group,
        queue=array.queue,
        indexes=array.indexes,
        size=array.size,
        limit=array.at_once,
        submitted_at=time_text(array.submitted_ms),
        succeeded=counts.succeeded,
        failed=counts.failed,
        cancelled=counts.cancelled,
        counts={one.value: counts.statuses[one] for one in SessionStatus if one in counts.statuses},
    )


def _result_text(counts: ArrayCounts) -> str:
    """A failure, if a session failed; else cancelled, if a user ended one."""
    if counts.failed:
        return SessionResult.FAILURE.value
    return CANCELLED if counts.cancelled else SessionResult.SUCCESS.value


def array_status(counts: ArrayCounts) -> SessionStatus:
    """Pending until a session starts, running until all have ended."""
    found = counts.statuses.keys()
    if found <= {SessionStatus.PENDING}:
        return SessionStatus.PENDING
    if found <= {SessionStatus.CANCELLED}:
        return SessionStatus.CANCELLED
    return SessionStatus.TERMINATED if found <= SESSION.terminal else SessionStatus.RUNNING
