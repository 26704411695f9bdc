"""Rows of agents, and the values they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.repositories.sessions.session_rows import slots_of
from sokovan.adapters.sql.schema.tables import KERNELS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.agent_health import HEALTHY, AgentHealth
from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.slots import ResourceSlot, total


async def releasing_kernels(transaction: Transaction, ids: Sequence[str]) -> dict[str, list[ResourceSlot]]:
    """Slots held by TERMINATING kernels, by agent."""
    found: dict[str, list[ResourceSlot]] = {}
    statement = sa.select(KERNELS.c.agent_id, KERNELS.c.slots).where(
        KERNELS.c.status == KernelStatus.TERMINATING.value,
        KERNELS.c.agent_id.in_(sa.select(ids_table(transaction.postgresql).c.id)),
    )
    for row in await transaction.fetch(statement, bound_ids(transaction, ids)):
        found.setdefault(row.agent_id, []).append(slots_of(row.slots))
    return found


def agent_info(row: Row[Any], slots: Sequence[Row[Any]], releasing: Sequence[ResourceSlot]) -> AgentInfo:
    """The AgentInfo of an agent's rows."""
    return AgentInfo(
        agent_id=AgentId(row.agent_id),
        available_slots=ResourceSlot({one.slot: one.capacity for one in slots}),
        occupied_slots=ResourceSlot({one.slot: one.used for one in slots}),
        architecture=row.architecture,
        labels=msgspec.json.decode(row.labels),
        kernels_max=row.kernels_max,
        status=AgentStatus(row.status),
        scaling_group=ScalingGroupName(row.scaling_group),
        shard=row.shard,
        incarnation=row.incarnation,
        cached_images=frozenset(msgspec.json.decode(row.cached_images)),
        releasing_slots=total(releasing),
        kernel_count=row.kernel_count,
        releasing_count=len(releasing),
        health=health_of(row.health),
    )


def health_text(health: AgentHealth) -> str:
    """The stored form of an agent's health."""
    return "{}" if health == HEALTHY else msgspec.json.encode(health).decode()


def health_of(text: str) -> AgentHealth:
    """Decode an agent's health."""
    return HEALTHY if text == "{}" else _HEALTH.decode(text)


_HEALTH = msgspec.json.Decoder(AgentHealth)
