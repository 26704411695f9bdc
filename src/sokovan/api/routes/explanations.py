"""Routes that explain sessions: plan, waiting, why, history, spec."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import read_summary, require_known, session_named, visible_filter
from sokovan.api.context import ApiContext
from sokovan.api.errors import ReplicaNamed
from sokovan.api.mapping.explanations import plan_view, waiting_view, why_view
from sokovan.api.mapping.requests import session_request
from sokovan.api.mapping.session_specs import session_spec_view
from sokovan.api.mapping.sessions import history_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_MAX, Cursor, Limit, cursor_of, number_of
from sokovan.api.routes.parameters import Ref, SessionChoice, WhyQuery
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.explanations import PlanView, WaitingView, WhyView
from sokovan.wire.api.sessions import HistoryView, SessionBody, SessionSpecView

# More than the largest session has; the databases count rows with 64 bits.
LINES_MAX = 10**9


class ExplanationRoutes:
    """Routes that explain sessions."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._controller = dependencies.store, dependencies.controller

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, one = "sessions", "/api/v1/sessions/{ref}"
        return [
            ApiOperation(
                method="POST", path="/api/v1/sessions/plan", endpoint=self.plan, tag=tag,
                body=SessionBody, answer=PlanView, fails=(404, 409), stores_nothing=True,
            ),
            ApiOperation(
                method="GET", path="/api/v1/sessions/waiting", endpoint=self.waiting, tag=tag,
                answer=WaitingView, fails=(404,),
            ),
            ApiOperation(method="GET", path=f"{one}/why", endpoint=self.why, tag=tag, answer=WhyView, fails=(404, 409)),
            ApiOperation(
                method="GET", path=f"{one}/history", endpoint=self.history, tag=tag,
                answer=HistoryView, fails=(404, 409),
            ),
            ApiOperation(
                method="GET", path=f"{one}/spec", endpoint=self.spec, tag=tag,
                answer=SessionSpecView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def plan(self, request: Request) -> Response:
        """Plan a session without storing it (dry run)."""
        wanted = session_request(body_of(request, SessionBody))
        planned = await self._controller.plan(wanted, principal_of(request.scope).caller)
        return json_response(plan_view(planned))

    async def waiting(self, request: Request, query: Annotated[SessionChoice, Query()]) -> Response:
        """List the reasons of waiting sessions, with counts and slots."""
        scope = visible_filter(principal_of(request.scope), query.filter())
        found = await self._controller.waiting(scope) if scope is not None else []
        if scope is not None and not found:
            await self._store.read(lambda unit: require_known(unit, scope))
        return json_response(waiting_view(found))

    async def why(self, request: Request, ref: Ref, query: Annotated[WhyQuery, Query()]) -> Response:
        """Explain the status of a session, and what would let it start."""
        principal = principal_of(request.scope)
        record = await read_summary(self._store, ref, principal)
        scope = visible_filter(principal)
        return json_response(why_view(await self._controller.why(record.session_id, scope, evict=query.evict)))

    async def history(self, request: Request, ref: Ref, limit: Limit = PAGE_MAX, cursor: Cursor = None) -> Response:
        """Show the history of a session and of its kernels."""
        principal, skip = principal_of(request.scope), min(number_of(cursor) or 0, LINES_MAX)

        async def work(unit: UnitOfWork) -> HistoryView:
            record = await session_named(unit, ref, principal)
            found = await unit.sessions.history(record.session_id, kernels=True, limit=limit + 1, skip=skip)
            return history_view(record, found[:limit], cursor_of(skip + limit) if len(found) > limit else None)

        return json_response(await self._store.read(work))

    async def spec(self, request: Request, ref: Ref) -> Response:
        """Show the request that submits a session again.

        Secret variables are named; the values of others are for the owner only.
        """
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> SessionSpecView:
            record = await unit.sessions.get((await session_named(unit, ref, principal)).session_id)
            if record.spec.replica is not None:
                raise ReplicaNamed(name=record.spec.name, deployment=record.spec.replica.deployment_id)
            is_owner = record.spec.owner.user == principal.user
            return session_spec_view(record.spec, now_ms=unit.now_ms, is_owner=is_owner)

        return json_response(await self._store.read(work))
