"""The allocator on SQL: lock, verify again, write, commit.

Steps: lock the agent rows ordered by id; verify slots, devices, kernel limits,
status and incarnation, quota, dependencies; move the session to SCHEDULED and
its kernels to their agents; write the ledger and the agents' occupancy; commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sokovan.adapters.sql.allocation.locked_state import lock_state
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

# Concurrent calls share a transaction, up to this many sessions.
SESSIONS_PER_TRANSACTION = 500
# Batches of at least SPLIT_MIN sessions are split into this many concurrent transactions.
PARTITIONS = 2
SPLIT_MIN = 100


class RepositoryAllocator(SchedulingAllocator):
    """Allocates in database transactions; concurrent callers share one."""

    name = "repository"

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._limits = OwnerLimitCache()
        # PostgreSQL executes one partition while Python prepares the other; SQLite has one writer.
        partitions = PARTITIONS if store.database.is_postgresql else 1
        self._commits = [
            GroupCommit(self._allocate_groups, at_most=SESSIONS_PER_TRANSACTION) for _ in range(partitions)
        ]

    async def allocate_batch(self, assignments: Sequence[Assignment], context: AllocationContext) -> BatchResult:
        """See the port."""
        if not assignments:
            return BatchResult((), {})
        if len(assignments) < SPLIT_MIN or len(self._commits) == 1:
            return await self._commits[0].submit(context, assignments)
        parts = partition_by_agents(assignments, count=len(self._commits))
        results = await asyncio.gather(
            *[commit.submit(context, part) for commit, part in zip(self._commits, parts, strict=False)]
        )
        return merge_results(assignments, results)

    def notices(self, results: Sequence[AllocationResult], now_ms: int) -> Sequence[Event]:
        """Events to publish if and only if the allocation commits.

        Extensions override this for side effects such as metrics and notifications, and
        perform them when the event arrives: an effect after the commit would be lost in
        a crash, and one before it might announce an allocation that is rolled back.
        """
        del results, now_ms
        return ()

    async def _allocate_groups(
        self, context: AllocationContext, groups: Sequence[Sequence[Assignment]]
    ) -> list[BatchResult]:
        """Allocate for several callers in one transaction; one result per caller."""

        async def work(unit: SqlUnitOfWork) -> dict[int, BatchResult]:
            results: dict[int, BatchResult] = {}
            rounds = conflict_free_rounds(groups)
            if len(rounds) > 1:
                # Take all locks first, so that they are taken in the one global order.
                await lock_state(unit.transaction, [one for group in groups for one in group], context, self._limits)
            for indices in rounds:
                every = [assignment for index in indices for assignment in groups[index]]
                whole = await self._apply(unit.transaction, every, context)
                by_session = {result.session_id: result for result in whole.allocated}
                results.update({index: result_for_caller(groups[index], by_session, whole) for index in indices})
            return results

        results = await self._store.run_sql(work, fence=context.fence)
        return [results[index] for index in range(len(groups))]

    async def _apply(
        self, transaction: Transaction, assignments: Sequence[Assignment], context: AllocationContext
    ) -> BatchResult:
        state = await lock_state(transaction, assignments, context, self._limits)
        accepted, refused = verify(assignments, state)
        try:
            async with transaction.savepoint():
                results = await self._write(transaction, accepted, state, context)
        except LedgerMismatch:
            # A constraint refused a row that the locked rows allowed. Retry singly, to refuse only that session.
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
            state = await lock_state(transaction, [assignment], context, self._limits)
            accepted, lost = verify([assignment], state)
            refused.update(lost)
            try:
                async with transaction.savepoint():
                    results += await self._write(transaction, accepted, state, context)
            except LedgerMismatch as error:
                refused[assignment.session_id] = AllocationRefused(
                    session_id=assignment.session_id, problem=error.message
                )
        return results

    async def _write(
        self, transaction: Transaction, accepted: Sequence[Accepted], state: LockedState, context: AllocationContext
    ) -> list[AllocationResult]:
        """Write inside the savepoint; extensions may override it to write more."""
        return await write_allocations(transaction, accepted, state, context)


def partition_by_agents(assignments: Sequence[Assignment], *, count: int) -> list[list[Assignment]]:
    """Split into up to `count` parts that share no agent, balanced by kernels.

    The order within a part is kept. Assignments that are connected through gangs stay
    in one part.
    """
    root: dict[str, str] = {}

    def find(agent: str) -> str:
        while root[agent] != agent:
            root[agent] = root[root[agent]]
            agent = root[agent]
        return agent

    for assignment in assignments:
        agents = [agent for _, agent in assignment.kernels]
        for agent in agents:
            root.setdefault(agent, agent)
        for agent in agents[1:]:
            root[find(agent)] = find(agents[0])
    sizes: dict[str, int] = {}
    components = [find(one.kernels[0][1]) if one.kernels else "" for one in assignments]
    for component, assignment in zip(components, assignments, strict=True):
        sizes[component] = sizes.get(component, 0) + len(assignment.kernels)
    part_of = _balanced(sizes, count)
    parts: list[list[Assignment]] = [[] for _ in range(count)]
    for component, assignment in zip(components, assignments, strict=True):
        parts[part_of[component]].append(assignment)
    return [part for part in parts if part]


def _balanced(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Assign the largest component first, each to the part with the least load."""
    load = [0] * count
    part_of: dict[str, int] = {}
    for component in sorted(sizes, key=lambda component: (-sizes[component], component)):
        part = load.index(min(load))
        part_of[component] = part
        load[part] += sizes[component]
    return part_of


def conflict_free_rounds(groups: Sequence[Sequence[Assignment]]) -> list[list[int]]:
    """Group callers by index so that no round names a session twice.

    A later caller of the same session then sees the result of the earlier one.
    """
    rounds: list[tuple[set[str], list[int]]] = []
    for index, group in enumerate(groups):
        ids = {str(assignment.session_id) for assignment in group}
        conflicting = [number for number, (taken, _) in enumerate(rounds) if taken & ids]
        number = conflicting[-1] + 1 if conflicting else 0
        if number == len(rounds):
            rounds.append((set(), []))
        rounds[number][0].update(ids)
        rounds[number][1].append(index)
    return [indices for _, indices in rounds]


def merge_results(assignments: Sequence[Assignment], parts: Sequence[BatchResult]) -> BatchResult:
    """The results of all partitions, in the order of the batch."""
    allocated = {result.session_id: result for part in parts for result in part.allocated}
    refused = {session_id: error for part in parts for session_id, error in part.refused.items()}
    ids = dict.fromkeys(assignment.session_id for assignment in assignments)
    return BatchResult(tuple(allocated[one] for one in ids if one in allocated), refused)


def result_for_caller(
    group: Sequence[Assignment], by_session: dict[Any, AllocationResult], whole: BatchResult
) -> BatchResult:
    """One caller's part of a result, in the caller's order."""
    ids = list(dict.fromkeys(assignment.session_id for assignment in group))
    return BatchResult(
        tuple(by_session[one] for one in ids if one in by_session),
        {one: whole.refused[one] for one in ids if one in whole.refused},
    )
