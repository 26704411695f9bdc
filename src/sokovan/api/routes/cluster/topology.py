"""Topology routes: readable by all users, changed by administrators."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.lookup import require_role
from sokovan.api.context import ApiContext
from sokovan.api.mapping.topology import change_view, topology_of, topology_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.request_bodies import JSON_MEDIA
from sokovan.api.routes.parameters import DryRun
from sokovan.domain.cluster.topology_rules import TOPOLOGY, Topology
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.topology_changes import TopologyState, apply_topology, broken_constraints, topology_state
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.topology import TopologyBody, TopologyChangeView, TopologyView


@dataclass(frozen=True, slots=True)
class EncodedTopology:
    """The answer for a state, and its tag; good until the state differs."""

    state: TopologyState
    body: bytes
    tag: str


class TopologyRoutes:
    """Routes of the topology, which is read and written as a whole."""

    def __init__(self, context: ApiContext) -> None:
        self._store, self._hints = context.dependencies.store, context.dependencies.hints
        self._encoding, self._encoded = asyncio.Lock(), None

    _encoded: EncodedTopology | None

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, path = "topology", "/api/v1/topology"
        return [
            ApiOperation(
                method="GET", path=path, endpoint=self.show, tag=tag, answer=TopologyView, also={304: None}
            ),
            ApiOperation(
                method="PUT", path=path, endpoint=self.put, tag=tag, body=TopologyBody, answer=TopologyChangeView
            ),
            ApiOperation(
                method="DELETE", path=path, endpoint=self.remove, tag=tag, answer=TopologyChangeView, fails=(404,)
            ),
        ]  # fmt: skip

    async def show(self, request: Request) -> Response:
        """Show the topology, and the tree with its capacities.

        With the `ETag` of an answer in `If-None-Match`, the next one has no content unless it differs.
        """
        found = await self._current()
        headers = {"ETag": found.tag}
        if found.tag in [tag.strip() for tag in request.headers.get("If-None-Match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(found.body, media_type=JSON_MEDIA, headers=headers)

    async def _current(self) -> EncodedTopology:
        """Agents that have not changed are not read again, and a tree of the same agents is not built again."""
        async with self._encoding:
            before = self._encoded
            known = {} if before is None else {one.info.agent_id: one for one in before.state.agents}
            state = await self._store.read(lambda unit: topology_state(unit, known=known))
            if before is None or not _is_same(before.state, state):
                body = bytes(json_response(topology_view(state)).body)
                before = self._encoded = EncodedTopology(state, body, f'"{sha256(body).hexdigest()[:32]}"')
            return before

    async def put(self, request: Request, dry_run: DryRun = False) -> Response:  # noqa: FBT002  # a parameter
        """Replace the topology; administrators only.

        Constraints of sessions that it does not meet are reported.
        """
        principal = _administrator(request)
        topology = topology_of(body_of(request, TopologyBody))

        async def work(unit: UnitOfWork) -> TopologyChangeView:
            found = await apply_topology(unit, topology, dry_run=dry_run)
            if not dry_run:
                await unit.audit.append(audit_entry(principal, "topology.put", TOPOLOGY, broken=str(len(found))))
            return change_view(await topology_state(unit, topology), found, applied=not dry_run)

        return await self._answer(await (self._store.read(work) if dry_run else self._store.run(work)))

    async def remove(self, request: Request, dry_run: DryRun = False) -> Response:  # noqa: FBT002  # a parameter
        """Remove the topology; administrators only.

        Constraints of sessions that are no longer met are reported.
        """
        principal = _administrator(request)

        async def work(unit: UnitOfWork) -> TopologyChangeView:
            if dry_run:
                await unit.catalog.get(Topology, TOPOLOGY)
            else:
                await unit.catalog.remove(Topology, TOPOLOGY)
                await unit.audit.append(audit_entry(principal, "topology.remove", TOPOLOGY))
            state = await topology_state(unit, Topology())
            return change_view(state, await broken_constraints(unit, state), applied=not dry_run)

        return await self._answer(await (self._store.read(work) if dry_run else self._store.run(work)))

    async def _answer(self, change: TopologyChangeView) -> Response:
        if change.applied:
            await self._hints.set(SESSIONS_HINT)
        return json_response(change)


def _is_same(one: TopologyState, other: TopologyState) -> bool:
    """Whether two states are of the same topology and of the same versions of the same agents."""
    return (
        len(one.agents) == len(other.agents)
        and all(agent is now for agent, now in zip(one.agents, other.agents, strict=True))
        and one.topology == other.topology
    )


def _administrator(request: Request) -> AuthenticatedPrincipal:
    principal = principal_of(request.scope)
    require_role(principal, Action.CHANGE, ObjectKind.TOPOLOGY)
    return principal
