"""Labels that operators give agents; they may move an agent in the topology."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import agent_named, require_role
from sokovan.api.context import ApiContext
from sokovan.api.mapping.fleet import agent_view
from sokovan.api.mapping.topology import change_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.routes.parameters import Name
from sokovan.domain.cluster.agent import operator_labels
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.domain.records import AgentRecord
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.topology_changes import broken_constraints, topology_state
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.topology import LabelsBody, LabelsView, TopologyChangeView


class AgentLabelRoutes:
    """The route of the labels of an agent."""

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
            )
        ]

    async def label(self, request: Request, name: Name) -> Response:
        """Set and remove labels of an agent, which enrolments keep; administrators only."""
        principal = principal_of(request.scope)
        require_role(principal, Action.CHANGE, ObjectKind.AGENT)
        body = body_of(request, LabelsBody)

        async def work(unit: UnitOfWork) -> tuple[AgentRecord, TopologyChangeView]:
            record = await agent_named(unit, name)
            labels = operator_labels(record.operator_labels, body.set, body.remove)
            if labels != record.operator_labels:
                await unit.catalog.set_labels(record.info.agent_id, labels, version=record.version)
                record = await unit.fleet.get(record.info.agent_id)
                given = [*(f"{key}={value}" for key, value in body.set.items()), *(f"{key}-" for key in body.remove)]
                await unit.audit.append(audit_entry(principal, "agent.label", name, labels=" ".join(given)))
            state = await topology_state(unit)
            return record, change_view(state, await broken_constraints(unit, state), applied=True)

        record, change = await self._store.run(work)
        await self._hints.set(SESSIONS_HINT)
        agent_id = record.info.agent_id
        state, connected = await self._agents.get(agent_id), self._gateway.connected(agent_id)
        view = agent_view(record, state, connected=connected, seen_as=principal.subject.role)
        return json_response(LabelsView(agent=view, topology=change))
