"""Invariants of usage: slots, devices and ports."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.invariants.violations import Check, Violations, grouped, no_row, unequal, whole
from sokovan.adapters.sql.repositories.sessions.session_rows import slots_of
from sokovan.adapters.sql.schema.tables import (
    AGENT_DEVICES,
    AGENT_SLOTS,
    AGENTS,
    HELD_DEVICES,
    HELD_PORTS,
    HELD_SLOTS,
    KERNELS,
    OWNER_USAGE,
    PAST_USAGE,
    SERVING,
    SESSIONS,
    SESSIONS_SLOT,
)
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS
from sokovan.domain.owners.past_usage import UsageKey, UsageScope
from sokovan.domain.owners.policy import Scope
from sokovan.domain.session import SessionType

# The column of a session that names its owner, by scope.
OWNER_COLUMNS = {
    Scope.KEYPAIR: SESSIONS.c.access_key,
    Scope.USER: SESSIONS.c.user,
    Scope.GROUP: SESSIONS.c.group,
    Scope.DOMAIN: SESSIONS.c.domain,
}
_REPLICAS = SERVING.replicas
HOLDING = KERNELS.c.status.in_(sorted(status.value for status in HOLDS_SLOTS))
# Sessions that count against the quotas of their owners.
CHARGED = SESSIONS.c.session_type.in_([one.value for one in SessionType if one.is_charged])
_LIVE = HELD_SLOTS.c.freed_ms.is_(None)
_LIVE_DEVICE = HELD_DEVICES.c.freed_ms.is_(None)
_ONE = sa.literal(1, sa.BigInteger())


def _owner_amounts() -> sa.Select[Any]:
    """All amounts that count against owners: slots, and sessions that hold slots."""
    amounts: list[sa.Select[Any]] = []
    held = HELD_SLOTS.join(KERNELS, KERNELS.c.kernel_id == HELD_SLOTS.c.kernel_id).join(
        SESSIONS, SESSIONS.c.session_id == KERNELS.c.session_id
    )
    holding = sa.select(KERNELS.c.session_id).where(HOLDING)
    for scope, name in OWNER_COLUMNS.items():
        owner = (sa.literal(scope.value).label("scope"), name.label("name"))
        amounts += [
            sa.select(*owner, HELD_SLOTS.c.slot, HELD_SLOTS.c.amount).select_from(held).where(_LIVE, CHARGED),
            sa.select(*owner, sa.literal(SESSIONS_SLOT).label("slot"), _ONE.label("amount")).where(
                SESSIONS.c.session_id.in_(holding), CHARGED
            ),
        ]
    return sa.select(sa.union_all(*amounts).subquery())


def _past_amounts() -> sa.Select[Any]:
    """All slots that count in the past usage of users, groups and queues."""
    held = HELD_SLOTS.join(KERNELS, KERNELS.c.kernel_id == HELD_SLOTS.c.kernel_id).join(
        SESSIONS, SESSIONS.c.session_id == KERNELS.c.session_id
    )
    columns = (HELD_SLOTS.c.slot, HELD_SLOTS.c.amount)
    amounts = [
        sa.select(
            SESSIONS.c.scaling_group, sa.literal(scope.value).label("scope"), SESSIONS.c[scope.value].label("name"),
            *columns,
        )
        .select_from(held)
        .where(_LIVE)
        for scope in UsageScope
    ]  # fmt: skip
    return sa.select(sa.union_all(*amounts).subquery())


async def _kernels_hold_their_request(transaction: Transaction, violations: Violations) -> None:
    held_columns = (HELD_SLOTS.c.slot, HELD_SLOTS.c.amount, HELD_SLOTS.c.agent_id.label("held_on"))
    statement = (
        sa.select(
            KERNELS.c.kernel_id, KERNELS.c.status, KERNELS.c.agent_id, KERNELS.c.slots.label("asked"), *held_columns
        )
        .select_from(KERNELS)
        .outerjoin(HELD_SLOTS, sa.and_(HELD_SLOTS.c.kernel_id == KERNELS.c.kernel_id, _LIVE))
        .where(sa.or_(HOLDING, HELD_SLOTS.c.slot.is_not(None)))
        .order_by(KERNELS.c.kernel_id, HELD_SLOTS.c.slot)
    )
    async for kernel_id, rows in grouped(transaction, statement, by="kernel_id"):
        held = {row.slot: row.amount for row in rows if row.slot is not None}
        about = {"kernel_id": kernel_id, "status": rows[0].status, "held": _listed(held)}
        if rows[0].status not in HOLDS_SLOTS:
            violations.add("a kernel holds slots in a status that holds none", **about)
        elif held != dict(slots_of(rows[0].asked)):
            asked = _listed(dict(slots_of(rows[0].asked)))
            violations.add("a kernel does not hold the slots it requests", **about, asked=asked)
        elif any(row.held_on not in {None, row.agent_id} for row in rows):
            agents = {"agent_id": rows[0].agent_id, "held_on": rows[0].held_on}
            violations.add("a kernel holds slots of another agent", **about, **agents)


def _listed(amounts: dict[str, int]) -> str:
    return " ".join(f"{slot}={amount}" for slot, amount in sorted(amounts.items())) or "nothing"


SLOT_CONSERVATION: tuple[Check, ...] = (
    no_row(
        "the usage of an agent is not the sum of the slots that kernels hold",
        unequal(
            sa.select(AGENT_SLOTS.c.agent_id, AGENT_SLOTS.c.slot, AGENT_SLOTS.c.used.label("amount")),
            sa.select(HELD_SLOTS.c.agent_id, HELD_SLOTS.c.slot, HELD_SLOTS.c.amount).where(_LIVE),
            "agent_id",
            "slot",
        ),
    ),
    _kernels_hold_their_request,
    no_row(
        "the kernel count of an agent is wrong",
        unequal(
            sa.select(AGENTS.c.agent_id, AGENTS.c.kernel_count.label("amount")),
            sa.select(KERNELS.c.agent_id, _ONE.label("amount")).where(HOLDING, KERNELS.c.agent_id.is_not(None)),
            "agent_id",
        ),
    ),
    no_row(
        "the usage of an owner is not the sum of the slots that its kernels hold",
        unequal(
            sa.select(*[OWNER_USAGE.c[key] for key in ("scope", "name", "slot")], OWNER_USAGE.c.used.label("amount")),
            _owner_amounts(),
            "scope",
            "name",
            "slot",
        ),
    ),
    no_row(
        "past usage does not count the slots that kernels hold now",
        unequal(
            sa.select(
                *[PAST_USAGE.c[key] for key in UsageKey._fields],
                PAST_USAGE.c.held.label("amount"),
            ),
            _past_amounts(),
            *UsageKey._fields,
        ),
    ),
    no_row(
        "the usage of a device is not the sum of the units that kernels hold",
        unequal(
            sa.select(AGENT_DEVICES.c.agent_id, AGENT_DEVICES.c.device_id, AGENT_DEVICES.c.used.label("amount")),
            sa.select(HELD_DEVICES.c.agent_id, HELD_DEVICES.c.device_id, HELD_DEVICES.c.units.label("amount")).where(
                _LIVE_DEVICE
            ),
            "agent_id",
            "device_id",
        ),
    ),
    no_row(
        "a kernel holds a device in a status that holds none",
        sa.select(KERNELS.c.kernel_id, KERNELS.c.status, HELD_DEVICES.c.device_id)
        .select_from(KERNELS)
        .join(HELD_DEVICES, HELD_DEVICES.c.kernel_id == KERNELS.c.kernel_id)
        .where(_LIVE_DEVICE, sa.not_(HOLDING)),
    ),
)

NO_OVERCOMMIT: tuple[Check, ...] = (
    no_row(
        "usage is above the capacity or below zero",
        sa.select(AGENT_SLOTS.c.agent_id, AGENT_SLOTS.c.slot, AGENT_SLOTS.c.used, AGENT_SLOTS.c.capacity).where(
            sa.or_(AGENT_SLOTS.c.used < 0, AGENT_SLOTS.c.used > AGENT_SLOTS.c.capacity)
        ),
    ),
)

_held_units = whole(sa.func.sum(HELD_DEVICES.c.units))
_of_device = sa.and_(
    HELD_DEVICES.c.agent_id == AGENT_DEVICES.c.agent_id, HELD_DEVICES.c.device_id == AGENT_DEVICES.c.device_id
)
_exclusive = sa.func.max(sa.case((HELD_DEVICES.c.exclusive, 1), else_=0))
DEVICE_EXCLUSIVITY: tuple[Check, ...] = (
    no_row(
        "kernels hold more units of a device than it has",
        sa.select(AGENT_DEVICES.c.agent_id, AGENT_DEVICES.c.device_id, AGENT_DEVICES.c.units, _held_units.label("held"))
        .select_from(AGENT_DEVICES)
        .join(HELD_DEVICES, _of_device)
        .where(_LIVE_DEVICE)
        .group_by(AGENT_DEVICES.c.agent_id, AGENT_DEVICES.c.device_id, AGENT_DEVICES.c.units)
        .having(_held_units > AGENT_DEVICES.c.units),
    ),
    no_row(
        "a device that one kernel holds exclusively is held by another too",
        sa.select(
            HELD_DEVICES.c.agent_id,
            HELD_DEVICES.c.device_id,
            sa.func.count().label("kernels"),
            sa.func.min(HELD_DEVICES.c.kernel_id).label("kernel_id"),
            sa.func.max(HELD_DEVICES.c.kernel_id).label("other"),
        )
        .where(_LIVE_DEVICE)
        .group_by(HELD_DEVICES.c.agent_id, HELD_DEVICES.c.device_id)
        .having(sa.func.count() > 1, _exclusive == 1),
    ),
)

PORT_EXCLUSIVITY: tuple[Check, ...] = (
    no_row(
        "a session with its port belongs to more than one replica",
        sa.select(
            _REPLICAS.c.session_id,
            sa.func.count().label("replicas"),
            sa.func.min(_REPLICAS.c.replica_id).label("replica_id"),
            sa.func.max(_REPLICAS.c.replica_id).label("other"),
        )
        .where(_REPLICAS.c.session_id.is_not(None))
        .group_by(_REPLICAS.c.session_id)
        .having(sa.func.count() > 1),
    ),
    no_row(
        "a port of an agent is leased to more than one kernel",
        sa.select(HELD_PORTS.c.agent_id, HELD_PORTS.c.port, sa.func.count().label("leases"))
        .where(HELD_PORTS.c.freed_ms.is_(None))
        .group_by(HELD_PORTS.c.agent_id, HELD_PORTS.c.port)
        .having(sa.func.count() > 1),
    ),
    no_row(
        "a port is leased to a kernel that holds nothing on its agent",
        sa.select(HELD_PORTS.c.agent_id, HELD_PORTS.c.port, HELD_PORTS.c.kernel_id)
        .select_from(HELD_PORTS)
        .outerjoin(
            KERNELS,
            sa.and_(
                KERNELS.c.kernel_id == HELD_PORTS.c.kernel_id, KERNELS.c.agent_id == HELD_PORTS.c.agent_id, HOLDING
            ),
        )
        .where(HELD_PORTS.c.freed_ms.is_(None), KERNELS.c.kernel_id.is_(None)),
    ),
    no_row(
        "a kernel holds slots, but the port that it was given is not leased",
        sa.select(KERNELS.c.kernel_id, KERNELS.c.agent_id, KERNELS.c.host_ports).where(
            HOLDING,
            KERNELS.c.host_ports != "{}",
            ~sa.exists().where(HELD_PORTS.c.kernel_id == KERNELS.c.kernel_id, HELD_PORTS.c.freed_ms.is_(None)),
        ),
    ),
)
