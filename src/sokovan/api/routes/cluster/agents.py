"""Agent routes: readable by all users, changed by administrators."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import agent_named, require_role
from sokovan.api.context import ApiContext
from sokovan.api.mapping.agent_actions import UNDRAIN, requested_transition
from sokovan.api.mapping.fleet import agent_view
from sokovan.api.mapping.sessions import history_line
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, name_after, page_by_name, page_response
from sokovan.api.routes.cluster.agent_impact import agent_impact
from sokovan.api.routes.parameters import DryRun, InScalingGroup, Name
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.domain.records import AgentRecord
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.ports.agent_states import AgentState
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import AgentChange, AgentImpactView, AgentPage, AgentView
from sokovan.wire.api.sessions import HistoryLine


class AgentRoutes:
    """Routes of agents."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._hints = dependencies.store, dependencies.hints
        self._agents, self._gateway = dependencies.agents, dependencies.gateway

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, every = "agents", "/api/v1/agents"
        one = f"{every}/{{name:path}}"
        return [
            ApiOperation(method="GET", path=every, endpoint=self.list, tag=tag, answer=AgentPage),
            ApiOperation(
                method="GET", path=f"{one}/history", endpoint=self.history, tag=tag,
                answer=list[HistoryLine], fails=(404,),
            ),
            ApiOperation(method="GET", path=one, endpoint=self.show, tag=tag, answer=AgentView, fails=(404,)),
            ApiOperation(
                method="PATCH", path=one, endpoint=self.change, tag=tag,
                body=AgentChange, answer=AgentView | AgentImpactView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def list(
        self,
        request: Request,
        scaling_group: InScalingGroup = None,
        limit: Limit = PAGE_DEFAULT,
        cursor: Cursor = None,
    ) -> Response:
        """List agents, by id."""
        after, group = name_after(cursor), scaling_group or ""
        found = await self._store.read(lambda unit: unit.fleet.all(scaling_group=group, after=after, limit=limit + 1))
        page, following = page_by_name(found, lambda one: one.info.agent_id, limit=limit, cursor=cursor)
        states = await self._agents.fresh()
        return await page_response((self._view(request, one, states.get(one.info.agent_id)) for one in page), following)

    async def show(self, request: Request, name: Name) -> Response:
        """Show an agent."""
        record = await self._store.read(lambda unit: agent_named(unit, name))
        state = await self._agents.get(record.info.agent_id)
        return json_response(self._view(request, record, state, measured=True))

    async def history(self, name: Name) -> Response:
        """Show the history of an agent."""

        async def work(unit: UnitOfWork) -> list[HistoryLine]:
            record = await agent_named(unit, name)
            return [history_line(name, entry) for entry in await unit.fleet.history(record.info.agent_id)]

        return json_response(await self._store.read(work))

    async def change(self, request: Request, name: Name, dry_run: DryRun = False) -> Response:  # noqa: FBT002  # a parameter of the query
        """Drain an agent, undo that, or declare it gone; administrators only.

        To undo returns an agent to scheduling that was removed because it failed sessions.
        With `dry_run` the answer is the impact, and nothing is changed.
        """
        principal = principal_of(request.scope)
        require_role(principal, Action.CHANGE, ObjectKind.AGENT)
        body = body_of(request, AgentChange)
        trigger, goal, change = requested_transition(body, principal.user)
        if dry_run:
            return json_response(await self._store.read(lambda unit: agent_impact(unit, name, body.action)))

        async def work(unit: UnitOfWork) -> AgentRecord:
            record = await agent_named(unit, name)
            if record.info.status is not goal:
                record = await unit.fleet.move(record, trigger, change)
            if body.action == UNDRAIN and record.info.health.is_failing:
                record = await unit.fleet.set_health(record, record.info.health.cleared(unit.now_ms), change)
            await unit.audit.append(audit_entry(principal, f"agent.{body.action}", name, reason=body.reason))
            return record

        record = await self._store.run(work)
        await self._hints.set(SESSIONS_HINT)
        return json_response(self._view(request, record, await self._agents.get(record.info.agent_id)))

    def _view(
        self, request: Request, record: AgentRecord, state: AgentState | None, *, measured: bool = False
    ) -> AgentView:
        connected, role = self._gateway.connected(record.info.agent_id), principal_of(request.scope).subject.role
        return agent_view(record, state, connected=connected, seen_as=role, measured=measured)
