"""Writes accepted assignments: sessions, kernels, ledger, what is in use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sokovan.adapters.sql.allocation.batch_results import result_of
from sokovan.adapters.sql.allocation.ledger_lines import LedgerLines
from sokovan.adapters.sql.allocation.verification import Accepted, LockedState
from sokovan.adapters.sql.repositories.sessions.session_rows import devices_text
from sokovan.adapters.sql.repositories.sessions.transitions import Transitions
from sokovan.adapters.sql.repositories.usage import LedgerMismatch, UsageDelta, apply_delta
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change
from sokovan.ports.allocation import AllocationContext, AllocationResult


async def write_allocations(
    transaction: Transaction, accepted: Sequence[Accepted], facts: LockedState, context: AllocationContext
) -> list[AllocationResult]:
    """Write what was accepted, in a few statements. Raises LedgerMismatch."""
    if not accepted:
        return []
    change = Change(who=context.who, by=Cause.COORDINATOR, code="allocated")
    transitions = Transitions(transaction, change)
    delta, lines = UsageDelta(), LedgerLines()
    for one in accepted:
        delta.add_owner(one.session.row, one.amounts, sign=1)
        _place(transitions, one, facts=facts, delta=delta, lines=lines)
    await transitions.write()
    await lines.write(transaction)
    incarnations = {agent_id: agent.incarnation for agent_id, agent in facts.agents.items()}
    used = await apply_delta(transaction, delta, incarnations=incarnations)
    _check_limits(used, facts)
    scheduled_at = datetime.fromtimestamp(transaction.now_ms / 1000, tz=UTC)
    return [result_of(one, scheduled_at) for one in accepted]


def _place(
    transitions: Transitions, one: Accepted, *, facts: LockedState, delta: UsageDelta, lines: LedgerLines
) -> None:
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


def _check_limits(used: dict[tuple[str, str, str], int], facts: LockedState) -> None:
    """What owners use was read without a lock: whoever came between is seen here."""
    for (scope, name, slot), amount in used.items():
        limit = facts.limits.get((scope, name), {}).get(slot)
        if limit is not None and amount > limit:
            raise LedgerMismatch(f"{scope} {name} would use {amount} of {limit} {slot}")
