"""Reads the fleet, and of its agents only those that have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.api.fleet.columns import Fleet, FleetReading, fleet_of, fleet_view, seen_by
from sokovan.api.pagination import encoded_fields, yield_to_others
from sokovan.domain.ids import AgentId
from sokovan.domain.owners.access import Ownership
from sokovan.domain.records import AgentRecord, HeldDevice
from sokovan.orchestrator.topology_changes import topology_state
from sokovan.ports.agent_gateway import KernelGateway
from sokovan.ports.agent_states import AgentStateReader
from sokovan.ports.environment import Clock
from sokovan.ports.storage import Store, UnitOfWork

# Readers within this time share one read of the store. A page reads later than this after it was notified of a change.
KEPT_MS = 150


@dataclass(frozen=True, slots=True)
class FleetState:
    """The fleet at a time, and its encoded columns by what readers may see."""

    read_ms: int
    fleet: Fleet
    bodies: dict[Ownership, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Stored:
    """The fleet as the store has it."""

    now_ms: int
    agents: Mapping[AgentId, AgentRecord]
    left: Mapping[AgentId, AgentRecord]
    parents: Mapping[str, str]
    holds: Mapping[AgentId, tuple[HeldDevice, ...]]


class FleetReader:
    """The fleet, read again when someone asks for it later."""

    def __init__(self, store: Store, agents: AgentStateReader, gateway: KernelGateway, clock: Clock) -> None:
        self._store, self._agents, self._gateway, self._clock = store, agents, gateway, clock
        self._reading, self._encoding = asyncio.Lock(), asyncio.Lock()
        self._stored: _Stored | None = None
        self._state: FleetState | None = None

    async def current(self, *, kept_ms: int = KEPT_MS) -> FleetState:
        """The fleet as it is now, or was `kept_ms` ago."""
        # From its arrival: those who waited for another one's read need none of their own, however long it took.
        arrived_ms = self._clock.monotonic_ms()
        async with self._reading:
            state = self._state
            if state is None or arrived_ms - state.read_ms >= kept_ms:
                state = self._state = await self._read(state)
            return state

    async def body(self, state: FleetState, scope: Ownership) -> bytes:
        """The encoded columns for readers of one scope."""
        async with self._encoding:
            body = state.bodies.get(scope)
            if body is None:
                view = fleet_view(state.fleet, seen_by(scope))
                await yield_to_others()
                body = state.bodies[scope] = await encoded_fields(view)
            return body

    async def _read(self, before: FleetState | None) -> FleetState:
        read_ms = self._clock.monotonic_ms()
        stored = self._stored = await self._store.read(self._changed)
        states = await self._agents.fresh()
        reading = FleetReading(
            now_ms=stored.now_ms,
            agents=list(stored.agents.values()),
            parents=stored.parents,
            holds=stored.holds,
            states=states,
            is_connected=self._gateway.connected,
        )
        return FleetState(read_ms, fleet_of(reading, None if before is None else before.fleet))

    async def _changed(self, unit: UnitOfWork) -> _Stored:
        before = self._stored
        known = {} if before is None else {**before.agents, **before.left}
        found = await topology_state(unit, known=known)
        agents = {one.info.agent_id: one for one in found.agents}
        # The devices of an agent are not held by others than before as long as it has the same stamp.
        stale = [agent_id for agent_id, one in agents.items() if known.get(agent_id) is not one]
        holds = {} if before is None else {one: those for one, those in before.holds.items() if one in agents}
        for agent_id in stale:
            holds.pop(agent_id, None)
        fresh: dict[AgentId, list[HeldDevice]] = {}
        for hold in await unit.ledger.held_devices(None if before is None else stale):
            fresh.setdefault(hold.agent_id, []).append(hold)
        holds |= {agent_id: tuple(those) for agent_id, those in fresh.items()}
        names = {str(agent_id) for agent_id in agents} | {node.name for node in found.hypernodes}
        parents = {member: node.name for node in found.hypernodes for member in node.members if member in names}
        left = {one.info.agent_id: one for one in found.left}
        return _Stored(unit.now_ms, agents, left, parents, holds)
