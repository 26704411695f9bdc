"""Enrols agents that are not known, many with the statements of one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.schema.tables import AGENT_DEVICES, AGENT_SLOTS, AGENTS, SCALING_GROUPS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.events import AgentEnrolled
from sokovan.domain.lifecycle.agent import AGENT
from sokovan.ports.repositories.agents import NewAgent

_GROUPS = sa.select(SCALING_GROUPS.c.name)


async def enrol_new(transaction: Transaction, agents: Sequence[NewAgent]) -> bool:
    """Insert agents with their slots and devices; False if one of them is known.

    Raises ObjectNotFound.
    """
    if not agents:
        return True
    groups = {row.name for row in await transaction.fetch(_GROUPS)}
    for agent in agents:
        if agent.info.scaling_group not in groups:
            raise ObjectNotFound(what="scaling group", name=agent.info.scaling_group)
    try:
        async with transaction.savepoint():
            await _insert(transaction, agents)
    except sa.exc.IntegrityError:  # a concurrent transaction was faster
        return False
    transaction.events.extend(
        AgentEnrolled(at_ms=transaction.now_ms, agent_id=agent.info.agent_id, incarnation=1) for agent in agents
    )
    return True


async def _insert(transaction: Transaction, agents: Sequence[NewAgent]) -> None:
    # In the order of their ids, so that two managers insert the same agents in the same order.
    agents = sorted(agents, key=lambda agent: agent.info.agent_id)
    lines = [
        (history.HistoryRow(agent.info.agent_id, 1, None, AGENT.initial.value, "enrolled"), agent.change)
        for agent in agents
    ]
    await history.append_each(transaction, AGENT.name, lines)
    await transaction.execute(sa.insert(AGENTS), [_row(transaction, agent.info) for agent in agents])
    slots = [
        {"agent_id": agent.info.agent_id, "slot": slot, "capacity": amount, "reported": amount, "used": 0}
        for agent in agents
        for slot, amount in sorted(agent.info.available_slots.items())
    ]
    if slots:
        await transaction.execute(sa.insert(AGENT_SLOTS), slots)
    devices = [
        {"agent_id": agent.info.agent_id, "device_id": one.device_id, "slot": one.slot, "units": one.units}
        for agent in agents
        for one in agent.devices
    ]
    if devices:
        await transaction.execute(sa.insert(AGENT_DEVICES), [{**one, "used": 0, "present": True} for one in devices])


def _row(transaction: Transaction, info: AgentInfo) -> dict[str, Any]:
    begun = {"status": AGENT.initial.value, "version": 1, "history_sequence": 1, "incarnation": 1, "kernel_count": 0}
    at = {"enrolled_ms": transaction.now_ms, "stamp": transaction.stamp}
    return {"agent_id": info.agent_id, **attributes(info), **begun, "draining": False, **at}


def attributes(info: AgentInfo) -> dict[str, Any]:
    """The columns that an agent reports."""
    return {
        "scaling_group": info.scaling_group,
        "architecture": info.architecture,
        "shard": info.shard,
        "kernels_max": info.kernels_max,
        "labels": msgspec.json.encode(dict(info.labels)).decode(),
        "cached_images": images_text(info.cached_images),
    }


def images_text(images: Collection[str]) -> str:
    """The stored form of images."""
    return msgspec.json.encode(sorted(images)).decode()
