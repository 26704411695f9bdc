"""Labels and taints of agents; a label may move an agent in the topology."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.lookup import agent_named, require_role
from sokovan.api.context import ApiContext
from sokovan.api.mapping.fleet import agent_view
from sokovan.api.mapping.topology import change_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.routes.parameters import Name
from sokovan.domain.cluster.agent import operator_labels, operator_taints
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.domain.records import AgentRecord
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.topology_changes import broken_constraints, topology_state
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import AgentView, TaintsBody
from sokovan.wire.api.topology import LabelsBody, LabelsView, TopologyChangeView


class AgentLabelRoutes:
    """The routes of the labels and the taints of an agent."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._hints = dependencies.store, dependencies.hints
        self._agents, self._gateway = dependencies.agents, dependencies.gateway

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="PATCH",
                path="/api/v1/agents/{name:path}/labels",
                endpoint=self.label,
                tag="agents",
                body=LabelsBody,
                answer=LabelsView,
                fails=(404, 409),
            ),
            ApiOperation(
                method="PATCH",
                path="/api/v1/agents/{name:path}/taints",
                endpoint=self.taint,
                tag="agents",
                body=TaintsBody,
                answer=AgentView,
                fails=(404, 409),
            ),
        ]

    async def label(self, request: Request, name: Name) -> Response:
        """Set and remove labels of an agent, which enrolments keep; administrators only."""
        principal = principal_of(request.scope)
        require_role(principal, Action.CHANGE, ObjectKind.AGENT)
        body = body_of(request, LabelsBody)

        async def work(unit: UnitOfWork) -> tuple[AgentRecord, TopologyChangeView]:
            record = await agent_named(unit, name)
            labels = operator_labels(record.operator_labels, body.set, body.remove)
            given = [*(f"{key}={value}" for key, value in body.set.items()), *(f"{key}-" for key in body.remove)]
            record = await _relabelled(unit, record, labels, principal, labels=" ".join(given))
            state = await topology_state(unit)
            return record, change_view(state, await broken_constraints(unit, state), applied=True)

        record, change = await self._store.run(work)
        await self._hints.set(SESSIONS_HINT)
        return json_response(LabelsView(agent=await self._view(request, record), topology=change))

    async def taint(self, request: Request, name: Name) -> Response:
        """Set and remove taints of an agent, which enrolments keep; administrators only."""
        principal = principal_of(request.scope)
        require_role(principal, Action.CHANGE, ObjectKind.AGENT)
        body = body_of(request, TaintsBody)

        async def work(unit: UnitOfWork) -> AgentRecord:
            record = await agent_named(unit, name)
            labels = operator_taints(record.operator_labels, body.set, body.remove)
            given = [*body.set, *(f"{key}-" for key in body.remove)]
            return await _relabelled(unit, record, labels, principal, taints=" ".join(given))

        record = await self._store.run(work)
        await self._hints.set(SESSIONS_HINT)
        return json_response(await self._view(request, record))

    async def _view(self, request: Request, record: AgentRecord) -> AgentView:
        agent_id = record.info.agent_id
        state, connected = await self._agents.get(agent_id), self._gateway.connected(agent_id)
        return agent_view(record, state, connected=connected, seen_as=principal_of(request.scope).subject.role)


async def _relabelled(
    unit: UnitOfWork, record: AgentRecord, after: Mapping[str, str], principal: AuthenticatedPrincipal, **given: str
) -> AgentRecord:
    """The agent with these labels of operators; a change is recorded as it was given."""
    agent_id, action = record.info.agent_id, "agent.taint" if "taints" in given else "agent.label"
    if after == record.operator_labels:
        return record
    await unit.catalog.set_labels(agent_id, after, version=record.version)
    await unit.audit.append(audit_entry(principal, action, agent_id, **given))
    return await unit.fleet.get(agent_id)
