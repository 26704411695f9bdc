"""The quota invariant: no allocation exceeded a limit that was already in force."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.invariants.usage_invariants import CHARGED, OWNER_COLUMNS
from sokovan.adapters.sql.invariants.violations import Check, Violations
from sokovan.adapters.sql.repositories.owner_limits import OWNED, OwnerLimitCache
from sokovan.adapters.sql.schema.tables import HELD_SLOTS, KERNELS, OWNER_USAGE, POLICIES, SESSIONS, SESSIONS_SLOT
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.owners.policy import Scope

# On PostgreSQL an allocation and a change of a limit may overlap; the allocation in progress is not reported.
UNDER_WAY_MS = 30_000


async def _within_limits(transaction: Transaction, violations: Violations) -> None:
    limits = await OwnerLimitCache().current(transaction)
    used = sa.select(OWNER_USAGE).where(OWNER_USAGE.c.used > 0).order_by(*OWNER_USAGE.primary_key.columns)
    above = [
        row
        for row in await transaction.fetch(used)
        if row.used > limits.get((row.scope, row.name), {}).get(row.slot, row.used)
    ]
    slack = UNDER_WAY_MS if transaction.postgresql else 0
    for scope in Scope:
        rows = [row for row in above if row.scope == scope.value]
        if not rows:
            continue
        changed = await _changed(transaction, scope)
        allocated = await _last_allocations(transaction, scope)
        for row in rows:
            last = allocated.get((row.name, row.slot), 0)
            # Lowering a limit takes nothing from owners that hold more.
            if last > changed[row.name] + slack:
                limit = limits[row.scope, row.name][row.slot]
                about = {"scope": row.scope, "name": row.name, "slot": row.slot, "used": row.used, "limit": limit}
                violations.add(
                    "an owner was allocated more than a limit", **about, served_ms=last, limited_ms=changed[row.name]
                )


async def _changed(transaction: Transaction, scope: Scope) -> dict[str, int]:
    """Time of the last write to the policy of each owner."""
    owners = OWNED[scope]
    statement = (
        sa.select(owners.c.name, POLICIES.c.changed_ms)
        .select_from(owners)
        .join(POLICIES, POLICIES.c.name == owners.c.policy)
    )
    return {row.name: row.changed_ms for row in await transaction.fetch(statement)}


async def _last_allocations(transaction: Transaction, scope: Scope) -> dict[tuple[str, str], int]:
    """Time of the last allocation per owner and slot, and of the last scheduled session."""
    name = OWNER_COLUMNS[scope].label("name")
    slots: sa.Select[Any] = (
        sa.select(name, HELD_SLOTS.c.slot, sa.func.max(HELD_SLOTS.c.held_ms).label("last"))
        .select_from(HELD_SLOTS)
        .join(KERNELS, KERNELS.c.kernel_id == HELD_SLOTS.c.kernel_id)
        .join(SESSIONS, SESSIONS.c.session_id == KERNELS.c.session_id)
        .where(CHARGED)
        .group_by(name, HELD_SLOTS.c.slot)
    )
    sessions: sa.Select[Any] = (
        sa.select(name, sa.func.max(SESSIONS.c.scheduled_ms).label("last"))
        .where(SESSIONS.c.scheduled_ms.is_not(None), CHARGED)
        .group_by(name)
    )
    allocated = {(row.name, row.slot): row.last for row in await transaction.fetch(slots)}
    allocated.update({(row.name, SESSIONS_SLOT): row.last for row in await transaction.fetch(sessions)})
    return allocated


QUOTA: tuple[Check, ...] = (_within_limits,)
