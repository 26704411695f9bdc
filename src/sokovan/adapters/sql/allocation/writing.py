"""Writes accepted assignments: sessions, kernels, ledger rows and usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import TypeEngine

from sokovan.adapters.sql.allocation.verification import Accepted, LockedState
from sokovan.adapters.sql.repositories.sessions.session_rows import devices_text, ports_text, record_of
from sokovan.adapters.sql.repositories.sessions.transitions import Transitions
from sokovan.adapters.sql.repositories.usage import LedgerMismatch, UsageDelta, apply_delta
from sokovan.adapters.sql.rows import FLAG, MANY, TEXT, WHOLE, Rows, common_columns
from sokovan.adapters.sql.schema.tables import HELD_DEVICES, HELD_PORTS, HELD_SLOTS, PORT_REST_MS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change, SessionRecord
from sokovan.domain.slots import ResourceSlot, total
from sokovan.ports.allocation import AllocationContext, AllocationResult

# In the order of the rows.
_SLOT_COLUMNS: Mapping[str, TypeEngine[Any]] = {
    "kernel_id": TEXT,
    "attempt": WHOLE,
    "slot": TEXT,
    "agent_id": TEXT,
    "incarnation": WHOLE,
    "amount": WHOLE,
}
_SLOT = list(_SLOT_COLUMNS).index("slot")
_SET_LOAN = (
    sa.update(SESSIONS)
    .where(SESSIONS.c.session_id == sa.bindparam("of"))
    .values(loan=sa.bindparam("lender", type_=sa.Text))
)


class LedgerRows:
    """New ledger rows: the slots, devices and ports that kernels will hold."""

    def __init__(self) -> None:
        self.slots: list[tuple[Any, ...]] = []
        self.devices: list[tuple[Any, ...]] = []
        self.ports: list[tuple[Any, ...]] = []

    async def write(self, transaction: Transaction) -> None:
        """Insert all rows. Raises LedgerMismatch if a device or port is held already."""
        try:
            await self._write(transaction)
        except IntegrityError as error:
            raise LedgerMismatch(f"the ledger refused these rows: {error.orig}") from error

    def _slot_lines(self, *, postgresql: bool) -> Iterable[list[tuple[Any, ...]]]:
        """The rows of slots in one part; many on SQLite in one part for each slot, as they have more in common."""
        if postgresql or len(self.slots) < MANY:
            return [self.slots] if self.slots else []
        parts: dict[str, list[tuple[Any, ...]]] = {}
        for line in self.slots:
            parts.setdefault(line[_SLOT], []).append(line)
        return parts.values()

    async def _write(self, transaction: Transaction) -> None:
        for lines in self._slot_lines(postgresql=transaction.postgresql):
            common = common_columns(lines, _SLOT_COLUMNS, postgresql=transaction.postgresql)
            statement, rows = _insert_slots(transaction.postgresql, common)
            await transaction.execute(statement, {**rows.bind(lines), "the_held_ms": transaction.now_ms})
        if self.devices:
            statement, rows = _insert_devices(transaction.postgresql)
            await transaction.execute(statement, rows.bind(self.devices))
        if self.ports:
            rested = {"the_rest_ms": transaction.now_ms - PORT_REST_MS}
            agents = bound_ids(transaction, sorted({agent_id for agent_id, *_ in self.ports}))
            await transaction.execute(_delete_ports(transaction.postgresql), {**agents, **rested})
            statement, rows = _insert_ports(transaction.postgresql)
            await transaction.execute(statement, {**rows.bind(self.ports), "the_held_ms": transaction.now_ms})


async def write_allocations(
    transaction: Transaction, accepted: Sequence[Accepted], state: LockedState, context: AllocationContext
) -> list[AllocationResult]:
    """Write the accepted assignments in a few statements. Raises LedgerMismatch."""
    if not accepted:
        return []
    change = Change(who=context.who, by=Cause.COORDINATOR, code="allocated")
    transitions = Transitions(transaction, change)
    delta, ledger = UsageDelta(), LedgerRows()
    # One that grows keeps its loan; one that starts has another, or none.
    starts = [one for one in accepted if one.session.row.scheduled_ms is None]
    loans = {
        one.session.session_id: one.assignment.lender for one in starts if one.assignment.lender or one.session.row.loan
    }
    for one in accepted:
        delta.add_owner(one.session.row, one.amounts, sign=1)
        _place(transitions, one, state=state, delta=delta, ledger=ledger)
    await transitions.write()
    if loans:
        await transaction.execute(_SET_LOAN, [{"of": one, "lender": lender} for one, lender in loans.items()])
    await ledger.write(transaction)
    incarnations = {agent_id: agent.incarnation for agent_id, agent in state.agents.items()}
    used = await apply_delta(transaction, delta, incarnations=incarnations)
    _check_limits(used, state)
    scheduled_at = datetime.fromtimestamp(transaction.now_ms / 1000, tz=UTC)
    known = await transitions.records([one.session for one in accepted if one.session.record is not None])
    records = {record.session_id: record for record in known}
    return [_result_of(one, scheduled_at, records.get(one.session.session_id)) for one in accepted]


def _place(
    transitions: Transitions, one: Accepted, *, state: LockedState, delta: UsageDelta, ledger: LedgerRows
) -> None:
    for kernel_id, agent_id in one.assignment.kernels:
        kernel, incarnation = one.session.kernels[kernel_id], state.agents[agent_id].incarnation
        kernel.agent_id, kernel.incarnation = agent_id, incarnation
        picked = one.devices[kernel_id]
        if picked:
            kernel.devices_text = devices_text(picked)
        leased = one.ports.get(kernel_id, {})
        kernel.host_ports_text = ports_text(leased)
        ledger.ports += [(agent_id, port, kernel_id, name) for name, port in leased.items()]
        transitions.move_kernel(one.session, kernel, KernelTrigger.ALLOCATED)
        delta.add_kernel(agent_id, kernel.slots, sign=1)
        for slot, amount in kernel.slots.items():
            ledger.slots.append((kernel_id, kernel.attempt, slot, agent_id, incarnation, amount))
        for slot, choice in picked.items():
            for device, units in choice:
                delta.devices[agent_id, device] += units
                exclusive = state.agents[agent_id].devices.exclusive(slot, device)
                ledger.devices.append((kernel_id, kernel.attempt, device, agent_id, units, exclusive))
    if one.assignment.hypernode is not None:
        transitions.set_hypernode(one.session, one.assignment.hypernode)
    if one.assignment.group_domains:
        transitions.set_group_domains(one.session, one.assignment.group_domains)
    transitions.settle(one.session, KernelTrigger.ALLOCATED)


def _check_limits(used: dict[tuple[str, str, str], int], state: LockedState) -> None:
    """Check limits on the written sums: usage was read without a lock, so it may have grown."""
    for (scope, name, slot), amount in used.items():
        limit = state.limits.get((scope, name), {}).get(slot)
        if limit is not None and amount > limit:
            raise LedgerMismatch(f"{scope} {name} would use {amount} of {limit} {slot}")


def _result_of(one: Accepted, scheduled_at: datetime, record: SessionRecord | None) -> AllocationResult:
    session_id, placed = one.session.session_id, dict(one.assignment.kernels)
    if record is None:
        kernels = tuple(record_of(session_id, one.session.kernels[kernel_id]) for kernel_id in placed)
    else:
        found = {kernel.kernel_id: kernel for kernel in record.kernels}
        kernels = tuple(found[kernel_id] for kernel_id in placed)
    slots: dict[AgentId, list[ResourceSlot]] = {}
    for kernel in kernels:
        slots.setdefault(placed[kernel.kernel_id], []).append(kernel.slots)
    agents = {agent_id: total(parts) for agent_id, parts in slots.items()}
    return AllocationResult(session_id, scheduled_at, kernels, agents, record)


@cache
def _insert_slots(postgresql: bool, common: frozenset[str]) -> tuple[sa.Insert, Rows]:  # noqa: FBT001  # a cache key
    rows = Rows("lines", _SLOT_COLUMNS, postgresql=postgresql, common=common)
    values = [rows.c[name] for name in _SLOT_COLUMNS]
    chosen = sa.select(*values, sa.bindparam("the_held_ms", type_=WHOLE))
    return sa.insert(HELD_SLOTS).from_select([*_SLOT_COLUMNS, "held_ms"], chosen), rows


@cache
def _insert_devices(postgresql: bool) -> tuple[sa.Insert, Rows]:  # noqa: FBT001  # a cache key
    columns: dict[str, TypeEngine[Any]] = {
        "kernel_id": TEXT,
        "attempt": WHOLE,
        "device_id": TEXT,
        "agent_id": TEXT,
        "units": WHOLE,
        "exclusive": FLAG,
    }
    rows = Rows("lines", columns, postgresql=postgresql)
    return sa.insert(HELD_DEVICES).from_select(list(columns), sa.select(*[rows.c[name] for name in columns])), rows


@cache
def _delete_ports(postgresql: bool) -> sa.Delete:  # noqa: FBT001  # a cache key
    """Deletes the leases of agents that have rested; the record of a kernel keeps its ports."""
    return sa.delete(HELD_PORTS).where(
        HELD_PORTS.c.agent_id.in_(sa.select(ids_table(postgresql).c.id)),
        HELD_PORTS.c.freed_ms <= sa.bindparam("the_rest_ms", type_=WHOLE),
    )


@cache
def _insert_ports(postgresql: bool) -> tuple[sa.Insert, Rows]:  # noqa: FBT001  # a cache key
    columns: dict[str, TypeEngine[Any]] = {"agent_id": TEXT, "port": WHOLE, "kernel_id": TEXT, "name": TEXT}
    rows = Rows("lines", columns, postgresql=postgresql)
    chosen = sa.select(*[rows.c[name] for name in columns], sa.bindparam("the_held_ms", type_=WHOLE))
    return sa.insert(HELD_PORTS).from_select([*columns, "held_ms"], chosen), rows
