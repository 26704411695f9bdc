"""Agents as their rows have them: slots, health, and ports that are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.repositories.agent_labels import labels_of
from sokovan.adapters.sql.repositories.sessions.session_rows import ON_AGENT, slots_of
from sokovan.adapters.sql.schema.tables import AGENT_SLOTS, AGENTS, HELD_PORTS, KERNELS, PORT_REST_MS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.cluster.agent import FOREVER_MS, AgentInfo
from sokovan.domain.cluster.agent_health import HEALTHY, AgentHealth
from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.slots import ResourceSlot, total

_CHANGED = sa.select(AGENTS).where(AGENTS.c.stamp >= sa.bindparam("since"))


async def read_infos(transaction: Transaction, *, since: int = 0) -> list[AgentInfo]:
    """The agents written since a stamp, with slots and taken ports."""
    rows = await transaction.fetch(_CHANGED, {"since": since})
    bound = bound_ids(transaction, [row.agent_id for row in rows])
    slots: dict[str, list[Any]] = {}
    for slot in await transaction.fetch(_slots_of(transaction.postgresql), bound):
        slots.setdefault(slot.agent_id, []).append(slot)
    infos = {row.agent_id: agent_info(row, slots.get(row.agent_id, ()), ()) for row in rows}
    taken: dict[str, list[tuple[int, int]]] = {}
    resting = {**bound, "the_rest_ms": transaction.now_ms - PORT_REST_MS}
    for port in await transaction.fetch(taken_ports(transaction.postgresql), resting):
        until_ms = FOREVER_MS if port.freed_ms is None else port.freed_ms + PORT_REST_MS
        taken.setdefault(port.agent_id, []).append((port.port, until_ms))
    for agent_id, ports in taken.items():
        infos[agent_id] = replace(infos[agent_id], leased_ports=tuple(sorted(ports)))
    return list(infos.values())


@cache
def _slots_of(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects the slots of agents."""
    return sa.select(AGENT_SLOTS).where(AGENT_SLOTS.c.agent_id.in_(sa.select(ids_table(postgresql).c.id)))


@cache
def taken_ports(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects the ports of agents that are leased, or were freed after `the_rest_ms`."""
    rests = HELD_PORTS.c.freed_ms > sa.bindparam("the_rest_ms", type_=sa.BigInteger())
    return sa.select(HELD_PORTS.c.agent_id, HELD_PORTS.c.port, HELD_PORTS.c.freed_ms).where(
        HELD_PORTS.c.agent_id.in_(sa.select(ids_table(postgresql).c.id)),
        sa.or_(HELD_PORTS.c.freed_ms.is_(None), rests),
    )


async def releasing_kernels(transaction: Transaction, ids: Sequence[str]) -> dict[str, list[ResourceSlot]]:
    """Slots held by TERMINATING kernels, by agent."""
    found: dict[str, list[ResourceSlot]] = {}
    for row in await transaction.fetch(_terminating(transaction.postgresql), bound_ids(transaction, ids)):
        found.setdefault(row.agent_id, []).append(slots_of(row.slots))
    return found


@cache
def _terminating(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects the TERMINATING kernels of agents."""
    return sa.select(KERNELS.c.agent_id, KERNELS.c.slots).where(
        ON_AGENT,
        KERNELS.c.status == KernelStatus.TERMINATING.value,
        KERNELS.c.agent_id.in_(sa.select(ids_table(postgresql).c.id)),
    )


def agent_info(row: Row[Any], slots: Sequence[Row[Any]], releasing: Sequence[ResourceSlot]) -> AgentInfo:
    """The AgentInfo of an agent's rows."""
    return AgentInfo(
        agent_id=AgentId(row.agent_id),
        available_slots=ResourceSlot({one.slot: one.capacity for one in slots}),
        occupied_slots=ResourceSlot({one.slot: one.used for one in slots}),
        architecture=row.architecture,
        labels=labels_of(row),
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
