"""The allocator on SQL: lock, verify again, write, commit.

Steps: lock the agent rows ordered by id; verify slots, devices, kernel limits,
status and incarnation, quota, dependencies; move the session to SCHEDULED and
its kernels to their agents; write the ledger and the agents' occupancy; commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.group_commit import GroupCommit
from sokovan.adapters.sql.holdings import Delta, LedgerMismatch, apply_delta
from sokovan.adapters.sql.lanes import lanes_of
from sokovan.adapters.sql.ledger_lines import LedgerLines
from sokovan.adapters.sql.limits import Limits
from sokovan.adapters.sql.locked_facts import lock_facts
from sokovan.adapters.sql.session_rows import devices_text, record_of
from sokovan.adapters.sql.store import SqlStore
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.transitions import Transitions
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.adapters.sql.verification import Accepted, Facts, verify
from sokovan.domain.events import Event
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.lifecycle.machine import Cause
from sokovan.domain.record import Change
from sokovan.domain.slots import ResourceSlot
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
        self._limits = Limits()
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
        return _together(assignments, results)

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
            rounds = _rounds(groups)
            if len(rounds) > 1:
                # Every lock at first, in the one order that all keep.
                await lock_facts(unit.transaction, [one for group in groups for one in group], context, self._limits)
            for indices in rounds:
                every = [assignment for index in indices for assignment in groups[index]]
                whole = await self._apply(unit.transaction, every, context)
                by_session = {result.session_id: result for result in whole.allocated}
                shares.update({index: _share_of(groups[index], by_session, whole) for index in indices})
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
        except (LedgerMismatch, IntegrityError):
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
            except (LedgerMismatch, IntegrityError) as error:
                problem = error.message if isinstance(error, LedgerMismatch) else f"the database refuses: {error.orig}"
                refused[assignment.session_id] = AllocationRefused(session_id=assignment.session_id, problem=problem)
        return results

    async def _write(
        self, transaction: Transaction, accepted: Sequence[Accepted], facts: Facts, context: AllocationContext
    ) -> list[AllocationResult]:
        if not accepted:
            return []
        change = Change(who=context.who, by=Cause.COORDINATOR, code="allocated")
        transitions = Transitions(transaction, change)
        delta, lines = Delta(), LedgerLines()
        for one in accepted:
            delta.add_owner(one.session.row, one.amounts, sign=1)
            _place(transitions, one, facts=facts, delta=delta, lines=lines)
        await transitions.write()
        await lines.write(transaction)
        incarnations = {agent_id: agent.incarnation for agent_id, agent in facts.agents.items()}
        used = await apply_delta(transaction, delta, incarnations=incarnations)
        _check_limits(used, facts)
        scheduled_at = datetime.fromtimestamp(transaction.now_ms / 1000, tz=UTC)
        return [_result(one, scheduled_at) for one in accepted]


def _place(transitions: Transitions, one: Accepted, *, facts: Facts, delta: Delta, lines: LedgerLines) -> None:
    for kernel_id, agent_id in one.assignment.kernels:
        kernel, incarnation = one.session.kernels[kernel_id], facts.agents[agent_id].incarnation
        kernel.agent_id, kernel.incarnation = agent_id, incarnation
        picked = one.devices[kernel_id]
        if picked:
            kernel.devices_text = devices_text(picked)
        transitions.move_kernel(one.session, kernel, KernelTrigger.ALLOCATED)
        delta.add_kernel(agent_id, kernel.slots, sign=1)
        for slot, amount in kernel.slots.items():
            lines.slots.append((kernel_id, slot, agent_id, incarnation, amount))
        for slot, choice in picked.items():
            for device, units in choice:
                delta.devices[agent_id, device] += units
                exclusive = facts.agents[agent_id].shelf.exclusive(slot, device)
                lines.devices.append((kernel_id, device, agent_id, units, exclusive))
    if one.assignment.hypernode is not None:
        transitions.lies_in(one.session, one.assignment.hypernode)
    transitions.settle(one.session, KernelTrigger.ALLOCATED)


def _check_limits(used: dict[tuple[str, str, str], int], facts: Facts) -> None:
    """Two first allocations of one owner have no row to lock: the second sees the sum only here."""
    for (scope, name, slot), amount in used.items():
        limit = facts.limits.get((scope, name), {}).get(slot)
        if limit is not None and amount > limit:
            raise LedgerMismatch(f"{scope} {name} would use {amount} of {limit} {slot}")


def _result(one: Accepted, scheduled_at: datetime) -> AllocationResult:
    session_id = one.session.session_id
    kernels = tuple(record_of(session_id, one.session.kernels[kernel_id]) for kernel_id, _ in one.assignment.kernels)
    agents: dict[Any, ResourceSlot] = {}
    for kernel in kernels:
        agents[kernel.agent_id] = agents[kernel.agent_id] + kernel.slots if kernel.agent_id in agents else kernel.slots
    return AllocationResult(session_id, scheduled_at, kernels, agents)


def _rounds(groups: Sequence[Sequence[Assignment]]) -> list[list[int]]:
    """The callers, such that two who name the same session do not meet: the later sees what the earlier did."""
    rounds: list[tuple[set[str], list[int]]] = []
    for index, group in enumerate(groups):
        ids = {str(assignment.session_id) for assignment in group}
        met = [number for number, (taken, _) in enumerate(rounds) if taken & ids]
        number = met[-1] + 1 if met else 0
        if number == len(rounds):
            rounds.append((set(), []))
        rounds[number][0].update(ids)
        rounds[number][1].append(index)
    return [indices for _, indices in rounds]


def _together(assignments: Sequence[Assignment], parts: Sequence[BatchResult]) -> BatchResult:
    """The results of all lanes, in the order of the batch."""
    allocated = {result.session_id: result for part in parts for result in part.allocated}
    refused = {session_id: error for part in parts for session_id, error in part.refused.items()}
    ids = dict.fromkeys(assignment.session_id for assignment in assignments)
    return BatchResult(tuple(allocated[one] for one in ids if one in allocated), refused)


def _share_of(group: Sequence[Assignment], by_session: dict[Any, AllocationResult], whole: BatchResult) -> BatchResult:
    ids = list(dict.fromkeys(assignment.session_id for assignment in group))
    return BatchResult(
        tuple(by_session[one] for one in ids if one in by_session),
        {one: whole.refused[one] for one in ids if one in whole.refused},
    )
