"""What became of a batch, and of each caller's part in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sokovan.adapters.sql.allocation.verification import Accepted
from sokovan.adapters.sql.repositories.sessions.session_rows import record_of
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.allocation import AllocationResult, Assignment, BatchResult


def result_of(one: Accepted, scheduled_at: datetime) -> AllocationResult:
    """What became of an assignment that was written."""
    session_id = one.session.session_id
    kernels = tuple(record_of(session_id, one.session.kernels[kernel_id]) for kernel_id, _ in one.assignment.kernels)
    agents: dict[Any, ResourceSlot] = {}
    for kernel in kernels:
        agents[kernel.agent_id] = agents[kernel.agent_id] + kernel.slots if kernel.agent_id in agents else kernel.slots
    return AllocationResult(session_id, scheduled_at, kernels, agents)


def put_together(assignments: Sequence[Assignment], parts: Sequence[BatchResult]) -> BatchResult:
    """The results of all lanes, in the order of the batch."""
    allocated = {result.session_id: result for part in parts for result in part.allocated}
    refused = {session_id: error for part in parts for session_id, error in part.refused.items()}
    ids = dict.fromkeys(assignment.session_id for assignment in assignments)
    return BatchResult(tuple(allocated[one] for one in ids if one in allocated), refused)


def share_of(group: Sequence[Assignment], by_session: dict[Any, AllocationResult], whole: BatchResult) -> BatchResult:
    """One caller's part of a result, in the caller's order."""
    ids = list(dict.fromkeys(assignment.session_id for assignment in group))
    return BatchResult(
        tuple(by_session[one] for one in ids if one in by_session),
        {one: whole.refused[one] for one in ids if one in whole.refused},
    )
