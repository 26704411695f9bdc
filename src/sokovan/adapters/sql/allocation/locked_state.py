"""Locks and reads the rows that an allocation depends on, in one global order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.allocation.port_leases import leases_ports
from sokovan.adapters.sql.allocation.verification import LockedAgent, LockedState, limits_on
from sokovan.adapters.sql.repositories.agent_labels import labels_of
from sokovan.adapters.sql.repositories.agent_rows import health_of, taken_ports
from sokovan.adapters.sql.repositories.catalog_locks import lock_to_rely_on
from sokovan.adapters.sql.repositories.owner_limits import OwnerLimitCache, OwnerLimits
from sokovan.adapters.sql.repositories.sessions.session_rows import SessionRow, lock_sessions
from sokovan.adapters.sql.repositories.usage import read_owners, scopes_of
from sokovan.adapters.sql.rows import TEXT, Rows
from sokovan.adapters.sql.schema.tables import (
    AGENT_DEVICES,
    AGENT_SLOTS,
    AGENTS,
    BOOKINGS,
    CATALOG_MARKS,
    DEPENDENCIES,
    PORT_REST_MS,
    SESSIONS,
    SESSIONS_SLOT,
    TOPOLOGY,
)
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.cluster.agent import port_range
from sokovan.domain.cluster.agent_claims import UNAPPROVED_LABEL
from sokovan.domain.lifecycle.agent import SCHEDULABLE, AgentStatus
from sokovan.domain.records import SessionResult
from sokovan.ports.allocation import AllocationContext, Assignment


async def lock_state(
    transaction: Transaction, assignments: Sequence[Assignment], context: AllocationContext, limits: OwnerLimitCache
) -> LockedState:
    """Lock agents by id, sessions by id, then bookings; read the rest without locks."""
    agents = await lock_agents(transaction, sorted({agent for one in assignments for _, agent in one.kernels}))
    ids = [one.session_id for one in assignments]
    sessions = await lock_sessions(transaction, ids, known=context.known, wanted=None)
    await _load_devices(transaction, agents, _requested_slots(assignments, sessions))
    if any(leases_ports(session) for session in sessions.values()):
        await _load_ports(transaction, agents)
    if context.bookings is not None:
        # A booking that is being accepted has not seen these sessions: either it waits, or this waits for it.
        await lock_to_rely_on(transaction, BOOKINGS)
    in_force = _checked_limits(await limits.current(transaction), sessions, context)
    booked = limits.versions.get(BOOKINGS.name, 0)
    return LockedState(
        agents=agents,
        sessions=sessions,
        used=await _used(transaction, sessions, in_force),
        limits=in_force,
        unmet=await _unmet(transaction, list(sessions)) if _checks(context, "dependencies") else (),
        topology_changed=await _topology_changed(transaction, assignments, context),
        bookings_changed=context.bookings is not None and context.bookings != booked,
    )


def _checks(context: AllocationContext, validator: str) -> bool:
    return context.validators is None or validator in context.validators


def _checked_limits(limits: OwnerLimits, sessions: dict[str, SessionRow], context: AllocationContext) -> OwnerLimits:
    """The limits that validators of the decision checked, on the owners of these sessions."""
    if context.validators is None or not limits:
        return limits
    owners = {scope for session in sessions.values() for scope in scopes_of(session.row)}
    return {
        owner: {slot: limit for slot, limit in limits[owner].items() if _checks(context, _validator(owner[0], slot))}
        for owner in owners & limits.keys()
    }


def _validator(scope: str, slot: str) -> str:
    """The name of the built-in validator of a limit."""
    return "concurrency" if slot == SESSIONS_SLOT else f"{scope}-resource-limit"


async def lock_agents(transaction: Transaction, ids: Sequence[str]) -> dict[str, LockedAgent]:
    """Lock agents in the order of their ids, like every writer of agents."""
    lock, slots = _agent_statements(transaction.postgresql)
    bound = bound_ids(transaction, ids)
    agents = {
        row.agent_id: LockedAgent(
            alive=_accepts(row),
            incarnation=row.incarnation,
            architecture=row.architecture,
            labels=labels_of(row),
            free={},
            kernels_left=None if row.kernels_max is None else row.kernels_max - row.kernel_count,
            scaling_group=row.scaling_group,
        )
        for row in await transaction.fetch(lock, bound)
    }
    for row in await transaction.fetch(slots, bound):
        if row.agent_id in agents:
            agents[row.agent_id].free[row.slot] = row.capacity - row.used
    return agents


def _accepts(row: sa.Row[Any]) -> bool:
    """Whether new kernels may be placed on the agent of a row."""
    # The name of a label in JSON; quotes inside of a value are escaped.
    approved = f'"{UNAPPROVED_LABEL}":' not in row.operator_labels
    return AgentStatus(row.status) in SCHEDULABLE and not health_of(row.health).is_failing and approved


async def _load_devices(transaction: Transaction, agents: dict[str, LockedAgent], slots: set[str]) -> None:
    """Load the devices of the requested slots."""
    statement, rows = _device_statement(transaction.postgresql)
    bound = {**bound_ids(transaction, list(agents)), **rows.bind([(slot,) for slot in sorted(slots)])}
    for row in await transaction.fetch(statement, bound):
        devices = agents[row.agent_id].devices
        devices.labels = agents[row.agent_id].labels
        # A removed device is registered with nothing free: its slot must not be taken for one without devices.
        devices.add(row.slot, row.device_id, units=row.units, free=row.units - row.used if row.present else 0)


async def _load_ports(transaction: Transaction, agents: dict[str, LockedAgent]) -> None:
    """Load the ports that are leased, or were until less than the time that they rest."""
    for agent in agents.values():
        agent.ports.offered = port_range(agent.labels)
    bound = {**bound_ids(transaction, list(agents)), "the_rest_ms": transaction.now_ms - PORT_REST_MS}
    for row in await transaction.fetch(taken_ports(transaction.postgresql), bound):
        agents[row.agent_id].ports.taken.add(row.port)


async def _unmet(transaction: Transaction, ids: Sequence[str]) -> set[str]:
    """The sessions with a dependency that has not ended with success."""
    statement = _dependency_statement(transaction.postgresql)
    found = await transaction.fetch(statement, bound_ids(transaction, ids))
    return {row.session_id for row in found}


async def _topology_changed(
    transaction: Transaction, assignments: Sequence[Assignment], context: AllocationContext
) -> bool:
    if context.topology is None or not any(one.has_domain for one in assignments):
        return False
    row = await transaction.first(sa.select(CATALOG_MARKS.c.stamp).where(CATALOG_MARKS.c.kind == TOPOLOGY.name))
    return (0 if row is None else row.stamp) != context.topology


def _requested_slots(assignments: Sequence[Assignment], sessions: dict[str, SessionRow]) -> set[str]:
    kernels = [
        sessions[one.session_id].kernels.get(kernel_id)
        for one in assignments
        if one.session_id in sessions
        for kernel_id, _ in one.kernels
    ]
    texts = {kernel.slots_text: kernel for kernel in kernels if kernel is not None}
    return {slot for kernel in texts.values() for slot in kernel.slots}


async def _used(
    transaction: Transaction, sessions: dict[str, SessionRow], limits: OwnerLimits
) -> dict[tuple[str, str, str], int]:
    """Usage of the limited slots by the owners of these sessions.

    Read without a lock, because many sessions share an owner; the sum is checked again
    when it is written, as the last step before the commit.
    """
    scopes = {scope for session in sessions.values() for scope in scopes_of(session.row)}
    keys = [(scope, name, slot) for scope, name, slot, _ in limits_on(sorted(scopes), limits)]
    return await read_owners(transaction, keys) if keys else {}


@cache
def _agent_statements(postgresql: bool) -> tuple[sa.Select[Any], sa.Select[Any]]:  # noqa: FBT001  # a key of the cache
    wanted = sa.select(ids_table(postgresql).c.id)
    lock = sa.select(AGENTS).where(AGENTS.c.agent_id.in_(wanted)).order_by(AGENTS.c.agent_id).with_for_update()
    return lock, sa.select(AGENT_SLOTS).where(AGENT_SLOTS.c.agent_id.in_(wanted))


@cache
def _device_statement(postgresql: bool) -> tuple[sa.Select[Any], Rows]:  # noqa: FBT001  # a key of the cache
    slots = Rows("slots", {"slot": TEXT}, postgresql=postgresql)
    statement = sa.select(AGENT_DEVICES).where(
        AGENT_DEVICES.c.agent_id.in_(sa.select(ids_table(postgresql).c.id)),
        AGENT_DEVICES.c.slot.in_(sa.select(slots.c.slot)),
    )
    return statement, slots


@cache
def _dependency_statement(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    wanted = sa.select(ids_table(postgresql).c.id)
    succeeded = sa.and_(SESSIONS.c.ended_ms.is_not(None), SESSIONS.c.result == SessionResult.SUCCESS.value)
    return (
        sa.select(DEPENDENCIES.c.session_id)
        .join(SESSIONS, SESSIONS.c.session_id == DEPENDENCIES.c.depends_on)
        .where(DEPENDENCIES.c.session_id.in_(wanted), sa.not_(sa.func.coalesce(succeeded, sa.false())))
    )
