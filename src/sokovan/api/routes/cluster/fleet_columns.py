"""Route of the whole fleet: agents, devices, and the sessions that hold them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.context import ApiContext
from sokovan.api.mapping.topology import fleet_view, measured_fleet
from sokovan.api.operations import ApiOperation
from sokovan.api.pagination import encoded_fields, yield_to_others
from sokovan.api.request_bodies import JSON_MEDIA
from sokovan.domain.owners.access import Ownership, session_scope
from sokovan.domain.records import AgentRecord, HeldDevice
from sokovan.orchestrator.topology_changes import topology_state
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import FleetView

# Readers within this time share one read of the store. A page reads later than this after it was notified of a change.
KEPT_MS = 150


@dataclass(frozen=True, slots=True)
class FleetState:
    """The fleet as it was read at a time."""

    read_ms: int
    now_ms: int
    agents: Sequence[AgentRecord]
    parents: Mapping[str, str]
    held: Sequence[HeldDevice]
    # Answers by what their readers may see: pages that are notified of a change read it together.
    bodies: dict[Ownership, bytes] = field(default_factory=dict)


class FleetRoutes:
    """The fleet as columns."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._clock, self._gateway = dependencies.store, dependencies.clock, dependencies.gateway
        self._agents = dependencies.agents
        self._reading, self._encoding, self._state = asyncio.Lock(), asyncio.Lock(), None

    _state: FleetState | None

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [ApiOperation(method="GET", path="/api/v1/fleet", endpoint=self.fleet, tag="agents", answer=FleetView)]

    async def fleet(self, request: Request) -> Response:
        """Show all agents and devices, with the sessions that hold them, as columns.

        Sessions that the caller may not see are not named.
        """
        scope = session_scope(principal_of(request.scope).subject)
        state = await self._current()
        async with self._encoding:
            body = state.bodies.get(scope)
            if body is None:
                body = state.bodies[scope] = await self._body(state, scope)
        return Response(body, media_type=JSON_MEDIA)

    async def _body(self, state: FleetState, scope: Ownership) -> bytes:
        states = await self._agents.fresh()
        view = self._view(state, scope)
        await yield_to_others()
        return await encoded_fields(measured_fleet(view, state.agents, states))

    def _view(self, state: FleetState, scope: Ownership) -> FleetView:
        return fleet_view(
            state.agents,
            state.parents,
            state.held,
            now_ms=state.now_ms,
            sees=lambda one: scope.user in {"", one.user} and scope.domain in {"", one.domain},
            is_connected=self._gateway.connected,
        )

    async def _current(self) -> FleetState:
        # From its arrival: those who waited for another one's read need none of their own, however long it took.
        arrived_ms = self._clock.monotonic_ms()
        async with self._reading:
            state = self._state
            if state is None or arrived_ms - state.read_ms >= KEPT_MS:
                state = self._state = await self._store.read(self._read)
            return state

    async def _read(self, unit: UnitOfWork) -> FleetState:
        read_ms = self._clock.monotonic_ms()
        before = self._state
        known = {} if before is None else {one.info.agent_id: one for one in before.agents}
        found = await topology_state(unit, known=known)
        names = {str(one.info.agent_id) for one in found.agents} | {node.name for node in found.hypernodes}
        parents = {member: node.name for node in found.hypernodes for member in node.members if member in names}
        return FleetState(read_ms, unit.now_ms, found.agents, parents, await unit.ledger.held_devices())
