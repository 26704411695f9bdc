"""The allocator on SQL: lock, verify again, write, commit.

Steps: lock the agent rows ordered by id; verify slots, devices, kernel limits,
status and incarnation, quota, dependencies; move the session to SCHEDULED and
its kernels to their agents; write the ledger and the agents' occupancy; commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sokovan.adapters.sql.allocation.batch_results import put_together, share_of
from sokovan.adapters.sql.allocation.lanes import lanes_of, rounds_of
from sokovan.adapters.sql.allocation.locked_state import lock_facts
from sokovan.adapters.sql.allocation.verification import Accepted, LockedState, verify
from sokovan.adapters.sql.allocation.writing import write_allocations
from sokovan.adapters.sql.group_commit import GroupCommit
from sokovan.adapters.sql.repositories.owner_limits import OwnerLimitCache
from sokovan.adapters.sql.repositories.usage import LedgerMismatch
from sokovan.adapters.sql.store import SqlStore
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.events import Event
from sokovan.ports.allocation import (
    AllocationContext,
    AllocationError,
    AllocationRefused,
    AllocationResult,
    Assignment,
    BatchResult,
    SchedulingAllocator,
)

# Calls of allocate that arrive together share a transaction, up to this many sessions.
TOGETHER_MAX = 500
# A batch is worth dividing from this size on.
LANES = 2
LANE_MIN = 100


class RepositoryAllocator(SchedulingAllocator):
    """Allocates in database transactions. Callers that arrive together share one."""

    name = "repository"

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._limits = OwnerLimitCache()
        # PostgreSQL works on one lane while we prepare the other; SQLite has one writer.
        lanes = LANES if store.database.is_postgresql else 1
        self._lanes = [GroupCommit(self._allocate_together, at_most=TOGETHER_MAX) for _ in range(lanes)]

    async def allocate_batch(self, assignments: Sequence[Assignment], context: AllocationContext) -> BatchResult:
        """See the port."""
        if not assignments:
            return BatchResult((), {})
        if len(assignments) < LANE_MIN or len(self._lanes) == 1:
            return await self._lanes[0].submit(context, assignments)
        parts = lanes_of(assignments, count=len(self._lanes))
        results = await asyncio.gather(
            *[lane.submit(context, part) for lane, part in zip(self._lanes, parts, strict=False)]
        )
        return put_together(assignments, results)

    def notices(self, results: Sequence[AllocationResult], now_ms: int) -> Sequence[Event]:
        """Events to be told with the allocation, if and only if it commits.

        What an extension wants to happen after an allocation (metrics, notifications)
        it says here, and does when the event arrives: an effect after the commit would
        be lost in a crash, one before it might be false.
        """
        del results, now_ms
        return ()

    async def _allocate_together(
        self, context: AllocationContext, groups: Sequence[Sequence[Assignment]]
    ) -> list[BatchResult]:
        """Allocate for several callers in one transaction, and tell each its own results."""

        async def work(unit: SqlUnitOfWork) -> dict[int, BatchResult]:
            shares: dict[int, BatchResult] = {}
            rounds = rounds_of(groups)
            if len(rounds) > 1:
                # Every lock at first, in the one order that all keep.
                await lock_facts(unit.transaction, [one for group in groups for one in group], context, self._limits)
            for indices in rounds:
                every = [assignment for index in indices for assignment in groups[index]]
                whole = await self._apply(unit.transaction, every, context)
                by_session = {result.session_id: result for result in whole.allocated}
                shares.update({index: share_of(groups[index], by_session, whole) for index in indices})
            return shares

        shares = await self._store.run_sql(work, fence=context.fence)
        return [shares[index] for index in range(len(groups))]

    async def _apply(
        self, transaction: Transaction, assignments: Sequence[Assignment], context: AllocationContext
    ) -> BatchResult:
        facts = await lock_facts(transaction, assignments, context, self._limits)
        accepted, refused = verify(assignments, facts)
        try:
            async with transaction.savepoint():
                results = await self._write(transaction, accepted, facts, context)
        except LedgerMismatch:
            # What the locked rows allowed, a constraint refused. Find who it is, and let the others through.
            results = await self._one_by_one(transaction, [one.assignment for one in accepted], context, refused)
        transaction.events.extend(self.notices(results, transaction.now_ms))
        return BatchResult(tuple(results), refused)

    async def _one_by_one(
        self,
        transaction: Transaction,
        assignments: Sequence[Assignment],
        context: AllocationContext,
        refused: dict[Any, AllocationError],
    ) -> list[AllocationResult]:
        results: list[AllocationResult] = []
        for assignment in assignments:
            facts = await lock_facts(transaction, [assignment], context, self._limits)
            accepted, lost = verify([assignment], facts)
            refused.update(lost)
            try:
                async with transaction.savepoint():
                    results += await self._write(transaction, accepted, facts, context)
            except LedgerMismatch as error:
                refused[assignment.session_id] = AllocationRefused(
                    session_id=assignment.session_id, problem=error.message
                )
        return results

    async def _write(
        self, transaction: Transaction, accepted: Sequence[Accepted], facts: LockedState, context: AllocationContext
    ) -> list[AllocationResult]:
        """Where an extension may add to what is written, inside the same savepoint."""
        return await write_allocations(transaction, accepted, facts, context)
