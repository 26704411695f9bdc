"""Agents as the scheduler sees them: slots, and ports that are taken."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.agents import agent_info
from sokovan.adapters.sql.schema.tables import AGENT_SLOTS, AGENTS, HELD_PORTS, PORT_REST_MS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.cluster.agent import FOREVER_MS, AgentInfo


async def read_infos(transaction: Transaction, where: sa.ColumnElement[bool]) -> list[AgentInfo]:
    """The agents that match, with their slots and taken ports, for the scheduler."""
    rows = await transaction.fetch(sa.select(AGENTS).where(where))
    bound = bound_ids(transaction, [row.agent_id for row in rows])
    wanted = AGENT_SLOTS.c.agent_id.in_(sa.select(ids_table(transaction.postgresql).c.id))
    slots: dict[str, list[Any]] = {}
    for slot in await transaction.fetch(sa.select(AGENT_SLOTS).where(wanted), bound):
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
def taken_ports(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects the ports of agents that are leased, or were freed after `the_rest_ms`."""
    rests = HELD_PORTS.c.freed_ms > sa.bindparam("the_rest_ms", type_=sa.BigInteger())
    return sa.select(HELD_PORTS.c.agent_id, HELD_PORTS.c.port, HELD_PORTS.c.freed_ms).where(
        HELD_PORTS.c.agent_id.in_(sa.select(ids_table(postgresql).c.id)),
        sa.or_(HELD_PORTS.c.freed_ms.is_(None), rests),
    )
