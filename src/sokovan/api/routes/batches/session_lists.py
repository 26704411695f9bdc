"""Sessions in short: rows of a list, and counts by a property."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.lookup import array_named, require_known, visible_listing
from sokovan.api.context import ApiContext
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.pagination import session_cursor
from sokovan.api.pending_reasons import session_rows
from sokovan.api.routes.parameters import SessionCountQuery, SessionFilters, SessionQuery
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.sessions import SessionCountsView, SessionCountView, SessionRowPage

VALUES_MAX = 1_000


class SessionListRoutes:
    """Routes that list many sessions at little cost."""

    def __init__(self, context: ApiContext) -> None:
        self._store = context.dependencies.store

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag = "sessions"
        return [
            ApiOperation(
                method="GET", path="/api/v1/sessions/rows", endpoint=self.rows, tag=tag,
                answer=SessionRowPage, fails=(404, 409),
            ),
            ApiOperation(
                method="GET", path="/api/v1/sessions/counts", endpoint=self.counts, tag=tag,
                answer=SessionCountsView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def rows(self, request: Request, query: Annotated[SessionQuery, Query()]) -> Response:
        """List sessions like `/sessions`, with what fits in one line of each."""
        principal, after, order = principal_of(request.scope), query.after(), query.order()
        scope = visible_listing(principal, query.filter(), mine=query.mine)
        if scope is None:
            return json_response(SessionRowPage(items=[]))

        async def work(unit: UnitOfWork) -> SessionRowPage:
            chosen = await _chosen(unit, scope, query, principal)
            found = await unit.sessions.summaries(
                chosen, limit=query.limit + 1, after=after, order=order, kernels_max=0
            )
            if not found:
                await require_known(unit, chosen)
            page = found[: query.limit]
            items = await session_rows(unit, page)
            more = len(found) > query.limit
            return SessionRowPage(
                items=items, next=session_cursor(page[-1], order.by, items[-1].reason) if more else None
            )

        return json_response(await self._store.read(work))

    async def counts(self, request: Request, query: Annotated[SessionCountQuery, Query()]) -> Response:
        """Count sessions by a property, with the filters of a list."""
        principal = principal_of(request.scope)
        scope = visible_listing(principal, query.filter(), mine=query.mine)
        if scope is None:
            return json_response(SessionCountsView(by=query.by.value, items=[]))

        async def work(unit: UnitOfWork) -> SessionCountsView:
            chosen = await _chosen(unit, scope, query, principal)
            found = await unit.sessions.counts(chosen, query.by, most=VALUES_MAX)
            if not found:
                await require_known(unit, chosen)
            items = [SessionCountView(value=value, count=count) for value, count in found.items()]
            return SessionCountsView(by=query.by.value, items=items)

        return json_response(await self._store.read(work))


async def _chosen(
    unit: UnitOfWork, scope: SessionFilter, query: SessionFilters, principal: AuthenticatedPrincipal
) -> SessionFilter:
    """The filter with the array that the query names. Raises ObjectNotFound."""
    array = "" if query.array is None else (await array_named(unit, query.array, principal)).array_id
    return replace(scope, array_id=array)
