"""Reads and writes the state carried between scheduling cycles."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from sokovan.adapters.sql.allocation.evictions import evict
from sokovan.adapters.sql.schema.tables import CURSORS, RESERVATIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.ports.snapshots import CatalogMarks, RecordedPlan
from sokovan.scheduling.carried_state import CarriedState
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import Reservation

__all__ = ["CatalogMarks", "RecordedPlan", "read_carried", "record_plan"]

_RESERVATIONS = sa.select(RESERVATIONS).order_by(RESERVATIONS.c.rank)
_CURSORS = sa.select(CURSORS)


async def record_plan(
    unit: SqlUnitOfWork, group: ScalingGroupName, before: CarriedState, plan: SchedulingPlan
) -> tuple[RecordedPlan, CarriedState]:
    """Evict the victims of a plan, and merge the rest of it into the carried state."""
    recorded = await evict(unit.transaction, plan) if plan.evictions or plan.moves else RecordedPlan()
    kept = tuple(one for one in plan.reservations if one.session_id not in recorded.refused)
    moves = tuple(one for one in plan.moves if one.for_session not in recorded.refused)
    after = before.after(replace(plan, reservations=kept, moves=moves))
    if not after.is_like(before):
        await write_carried(unit, group, after)
    return recorded, after


async def write_carried(unit: SqlUnitOfWork, group: ScalingGroupName, state: CarriedState) -> None:
    """Replace the carried state of a scaling group, and mark the change."""
    transaction = unit.transaction
    await transaction.execute(sa.delete(RESERVATIONS).where(RESERVATIONS.c.scaling_group == group))
    await transaction.execute(sa.delete(CURSORS).where(CURSORS.c.scaling_group == group))
    pairs = [(one, kernel, agent) for one in state.reservations for kernel, agent in one.kernels]
    reservations = [
        {
            "scaling_group": group,
            "kernel_id": kernel,
            "session_id": one.session_id,
            "agent_id": agent,
            "rank": rank,
            "starts_ms": one.starts_ms,
        }
        for rank, (one, kernel, agent) in enumerate(pairs)
    ]
    if reservations:
        await transaction.execute(sa.insert(RESERVATIONS), reservations)
    cursors = [{"scaling_group": group, "name": name, "agent_id": agent} for name, agent in state.cursors.items()]
    if cursors:
        await transaction.execute(sa.insert(CURSORS), cursors)
    await unit.catalog.mark(RESERVATIONS.name)


async def read_carried(transaction: Transaction) -> dict[ScalingGroupName, CarriedState]:
    """Read the carried state of all scaling groups that have any."""
    held: dict[str, dict[tuple[str, int | None], list[tuple[KernelId, AgentId]]]] = {}
    for row in await transaction.fetch(_RESERVATIONS):
        pairs = held.setdefault(row.scaling_group, {}).setdefault((row.session_id, row.starts_ms), [])
        pairs.append((KernelId(row.kernel_id), AgentId(row.agent_id)))
    cursors: dict[str, dict[str, AgentId]] = {}
    for row in await transaction.fetch(_CURSORS):
        cursors.setdefault(row.scaling_group, {})[row.name] = AgentId(row.agent_id)
    return {
        ScalingGroupName(group): CarriedState(
            tuple(Reservation(SessionId(one), tuple(pairs), at) for (one, at), pairs in held.get(group, {}).items()),
            cursors.get(group, {}),
        )
        for group in dict.fromkeys((*held, *cursors))
    }
