"""Machines: seen by everybody, drained and written off by administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.auditing import audit_entry
from sokovan.api.context import ApiContext
from sokovan.api.gate import asker_of
from sokovan.api.lookup import require_at_all
from sokovan.api.mapping.fleet import agent_view
from sokovan.api.mapping.sessions import history_line
from sokovan.api.operations import Operation, body_of, json_response
from sokovan.api.pages import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.api.routes.parameters import NAME_PATTERN, Name
from sokovan.domain.access import Act, Kind
from sokovan.domain.errors import NotFound
from sokovan.domain.ids import AgentId, is_name
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.machine import Cause
from sokovan.domain.record import AgentRecord, Change
from sokovan.orchestrator.sessions.preparation.problems import InvalidRequest, Problem
from sokovan.ports.agents import AgentState
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import AgentChange, AgentPage, AgentView
from sokovan.wire.api.sessions import HistoryView

# What an administrator may ask of a machine: the move, and where it leads.
ACTIONS: dict[str, tuple[AgentTrigger, AgentStatus]] = {
    "drain": (AgentTrigger.DRAIN_REQUESTED, AgentStatus.DRAINING),
    "undrain": (AgentTrigger.DRAIN_REVOKED, AgentStatus.ALIVE),
    "declare-gone": (AgentTrigger.DECLARED_GONE, AgentStatus.TERMINATED),
}
REASON_MAX = 1_000


class AgentRoutes:
    """Machines and what becomes of them."""

    def __init__(self, context: ApiContext) -> None:
        self._parts = context.parts

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        tag, every = "agents", "/api/v1/agents"
        one = f"{every}/{{name:path}}"
        return [
            Operation(method="GET", path=every, endpoint=self.list, tag=tag, answer=AgentPage),
            Operation(
                method="GET", path=f"{one}/history", endpoint=self.history, tag=tag,
                answer=HistoryView, fails=(404,),
            ),
            Operation(method="GET", path=one, endpoint=self.show, tag=tag, answer=AgentView, fails=(404,)),
            Operation(
                method="PATCH", path=one, endpoint=self.change, tag=tag,
                body=AgentChange, answer=AgentView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def list(
        self,
        scaling_group: Annotated[str | None, Query(pattern=NAME_PATTERN, description="In this pool.")] = None,
        limit: Limit = PAGE_DEFAULT,
        cursor: Cursor = None,
    ) -> Response:
        """List machines, by id."""
        every = await self._parts.store.read(lambda unit: unit.fleet.all(scaling_group=scaling_group or ""))
        page, following = page_by_name(every, lambda one: one.info.agent_id, limit=limit, cursor=cursor)
        states = await self._parts.agents.fresh()
        items = [self._view(one, states.get(one.info.agent_id)) for one in page]
        return json_response(AgentPage(items=items, next=following))

    async def show(self, name: Name) -> Response:
        """Show one machine."""
        record = await self._parts.store.read(lambda unit: _agent(unit, name))
        return json_response(self._view(record, await self._parts.agents.get(record.info.agent_id)))

    async def history(self, name: Name) -> Response:
        """Tell the story of a machine."""

        async def work(unit: UnitOfWork) -> HistoryView:
            record = await _agent(unit, name)
            entries = await unit.fleet.history(record.info.agent_id)
            return HistoryView(session=name, lines=[history_line(name, entry) for entry in entries])

        return json_response(await self._parts.store.read(work))

    async def change(self, request: Request, name: Name) -> Response:
        """Drain a machine, take that back, or declare one gone that is lost; administrators only."""
        asker = asker_of(request.scope)
        require_at_all(asker, Act.CHANGE, Kind.AGENT)
        body = body_of(request, AgentChange)
        trigger, goal = _action(body)

        async def work(unit: UnitOfWork) -> AgentRecord:
            record = await _agent(unit, name)
            if record.info.status is not goal:
                change = Change(asker.user, Cause.CONTROLLER, f"admin-{body.action}", body.reason)
                record = await unit.fleet.move(record, trigger, change)
            await unit.audit.append(audit_entry(asker, f"agent.{body.action}", name, reason=body.reason))
            return record

        record = await self._parts.store.run(work)
        await self._parts.hints.set("sessions")
        return json_response(self._view(record, await self._parts.agents.get(record.info.agent_id)))

    def _view(self, record: AgentRecord, state: AgentState | None) -> AgentView:
        return agent_view(record, state, connected=self._parts.gateway.connected(record.info.agent_id))


async def _agent(unit: UnitOfWork, name: str) -> AgentRecord:
    if not is_name(name):
        raise NotFound(what="agent", name=name)
    return await unit.fleet.get(AgentId(name))


def _action(body: AgentChange) -> tuple[AgentTrigger, AgentStatus]:
    if body.action not in ACTIONS:
        raise InvalidRequest([Problem("action", f"must be one of {', '.join(ACTIONS)}")])
    if len(body.reason) > REASON_MAX:
        raise InvalidRequest([Problem("reason", f"is longer than {REASON_MAX} characters")])
    return ACTIONS[body.action]
