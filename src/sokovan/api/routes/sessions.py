"""Sessions and arrays of them: submit, list, show, release, end."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import array_named, read_summary, require_known, session_named, visible_listing
from sokovan.api.access.uploads import require_upload
from sokovan.api.context import ApiContext
from sokovan.api.mapping.arrays import array_view
from sokovan.api.mapping.requests import session_request
from sokovan.api.mapping.sessions import KERNELS_LISTED, KERNELS_SHOWN, kernel_views, session_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, cursor_of, number_of, page_response, session_cursor
from sokovan.api.pending_reasons import session_views
from sokovan.api.routes.parameters import INDEX_MAX, REASON_MAX, ArrayQuery, IdempotencyKey, Ref, SessionQuery
from sokovan.domain.records import ArrayRecord, SessionSummary
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.arrays import ArrayPage, ArrayView
from sokovan.wire.api.sessions import KernelPage, SessionBody, SessionPage, SessionView


class SessionRoutes:
    """Routes that create, show and end sessions."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._controller = dependencies.store, dependencies.controller
        self._uploads, self._hub = dependencies.uploads, context.streams.hub

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, one = "sessions", "/api/v1/sessions/{ref}"
        return [
            ApiOperation(
                method="POST", path="/api/v1/sessions", endpoint=self.create, tag=tag,
                body=SessionBody, answer=SessionView, status=201, also={200: SessionView}, fails=(404, 409),
            ),
            ApiOperation(
                method="GET", path="/api/v1/sessions", endpoint=self.list, tag=tag,
                answer=SessionPage, fails=(404, 409),
            ),
            ApiOperation(method="GET", path=one, endpoint=self.show, tag=tag, answer=SessionView, fails=(404, 409)),
            ApiOperation(
                method="DELETE", path=one, endpoint=self.end, tag=tag,
                answer=SessionView, status=202, fails=(404, 409),
            ),
            ApiOperation(
                method="POST", path=f"{one}/cancel", endpoint=self.cancel, tag=tag,
                answer=SessionView, fails=(404, 409),
            ),
            ApiOperation(
                method="POST", path=f"{one}/release", endpoint=self.release, tag=tag,
                answer=SessionView, fails=(404, 409),
            ),
            ApiOperation(
                method="GET", path=f"{one}/kernels", endpoint=self.kernels, tag=tag,
                answer=KernelPage, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def create(
        self,
        request: Request,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Submit a session, or with `array` one per index.

        Of an array, the first session is returned. The same `Idempotency-Key` with the same
        body returns 200 and the existing session; with another body, 422.
        """
        wanted = session_request(body_of(request, SessionBody))
        caller = principal_of(request.scope).caller
        if wanted.upload:
            await require_upload(self._uploads, principal_of(request.scope).user, wanted.upload)
        submission = await self._controller.submit(wanted, caller, key=idempotency_key)
        record = submission.session
        if submission.fresh:
            self._hub.announce([record])
        headers = {"Location": f"/api/v1/sessions/{record.session_id}"}
        return json_response(session_view(record), status=201 if submission.fresh else 200, headers=headers)

    async def list(self, request: Request, query: Annotated[SessionQuery, Query()]) -> Response:
        """List sessions, by default newest first; those of an array by index."""
        principal = principal_of(request.scope)
        scope = visible_listing(principal, query.filter(), mine=query.mine)
        after, order = query.after(), query.order()
        if scope is None:
            return await page_response([], None)

        async def work(unit: UnitOfWork) -> tuple[list[SessionView], str | None]:
            array = "" if query.array is None else (await array_named(unit, query.array, principal)).array_id
            chosen = replace(scope, array_id=array)
            found = await unit.sessions.summaries(
                chosen, limit=query.limit + 1, after=after, order=order, kernels_max=KERNELS_LISTED
            )
            if not found:
                await require_known(unit, chosen)
            page = found[: query.limit]
            views, more = await session_views(unit, page), len(found) > query.limit
            return views, session_cursor(page[-1], order.by, views[-1].reason) if more else None

        return await page_response(*await self._store.read(work))

    async def show(self, request: Request, ref: Ref) -> Response:
        """Show a session."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> SessionView:
            found = await session_named(unit, ref, principal, kernels_max=KERNELS_SHOWN)
            [view] = await session_views(unit, [found])
            return view

        return json_response(await self._store.read(work))

    async def end(
        self,
        request: Request,
        ref: Ref,
        *,
        forced: Annotated[bool, Query(description="End it at once without waiting for its agents.")] = False,
        reason: Annotated[str, Query(max_length=REASON_MAX, description="The reason, kept in its history.")] = "",
    ) -> Response:
        """End a session; it ends asynchronously."""
        record = await self._found(request, ref)
        caller = principal_of(request.scope).caller
        marked = await self._controller.mark_for_termination(record.session_id, caller, forced=forced, reason=reason)
        return json_response(session_view(marked), status=202)

    async def cancel(self, request: Request, ref: Ref) -> Response:
        """Cancel a pending session; a started one is not affected."""
        record = await self._found(request, ref)
        cancelled = await self._controller.cancel(record.session_id, principal_of(request.scope).caller)
        return json_response(session_view(cancelled))

    async def release(
        self,
        request: Request,
        ref: Ref,
        *,
        gate: Annotated[str, Query(max_length=REASON_MAX, description="Only this gate; by default all.")] = "",
    ) -> Response:
        """Release a held session, so that it may be scheduled; idempotent."""
        record = await self._found(request, ref)
        caller = principal_of(request.scope).caller
        released = await self._controller.release(record.session_id, caller, gates=(gate,) if gate else ())
        return json_response(session_view(released))

    async def kernels(self, request: Request, ref: Ref, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Response:
        """List the kernels of a session, by their index."""
        principal, after = principal_of(request.scope), number_of(cursor)

        async def work(unit: UnitOfWork) -> KernelPage:
            record = await session_named(unit, ref, principal)
            first = -1 if after is None else min(after, INDEX_MAX)
            found = await unit.sessions.kernels(record.session_id, limit=limit + 1, after=first)
            page = found[:limit]
            return KernelPage(
                items=kernel_views(page, record.spec),
                next=cursor_of(page[-1].index) if len(found) > limit else None,
            )

        return json_response(await self._store.read(work))

    async def _found(self, request: Request, ref: str) -> SessionSummary:
        return await read_summary(self._store, ref, principal_of(request.scope))


class ArrayRoutes:
    """Routes that show, release and end job arrays."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._controller = dependencies.store, dependencies.controller

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, one = "arrays", "/api/v1/arrays/{ref}"
        return [
            ApiOperation(
                method="GET", path="/api/v1/arrays", endpoint=self.list, tag=tag, answer=ArrayPage, fails=(404,)
            ),
            ApiOperation(method="GET", path=one, endpoint=self.show, tag=tag, answer=ArrayView, fails=(404, 409)),
            ApiOperation(
                method="DELETE", path=one, endpoint=self.end, tag=tag,
                answer=ArrayView, status=202, fails=(404, 409),
            ),
            ApiOperation(
                method="POST", path=f"{one}/release", endpoint=self.release, tag=tag,
                answer=ArrayView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def list(self, request: Request, query: Annotated[ArrayQuery, Query()]) -> Response:
        """List arrays that have a session with these properties, newest first."""
        scope = visible_listing(principal_of(request.scope), query.filter(), mine=query.mine)
        after = number_of(query.cursor)
        if scope is None:
            return json_response(ArrayPage(items=[]))

        async def work(unit: UnitOfWork) -> ArrayPage:
            found = await unit.arrays.page(scope, limit=query.limit + 1, after=after)
            if not found:
                await require_known(unit, scope)
            page = found[: query.limit]
            counts = await unit.arrays.counts([one.array_id for one in page])
            return ArrayPage(
                items=[array_view(one, counts[one.array_id]) for one in page],
                next=cursor_of(page[-1].place) if len(found) > query.limit else None,
            )

        return json_response(await self._store.read(work))

    async def show(self, request: Request, ref: Ref) -> Response:
        """Show an array."""
        return json_response((await self._found(request, ref))[1])

    async def end(
        self,
        request: Request,
        ref: Ref,
        *,
        forced: Annotated[bool, Query(description="End them at once without waiting for their agents.")] = False,
        reason: Annotated[str, Query(max_length=REASON_MAX, description="The reason, kept in their history.")] = "",
    ) -> Response:
        """End all sessions of an array; they end asynchronously."""
        array, _ = await self._found(request, ref)
        await self._controller.arrays.end(array, principal_of(request.scope).caller, forced=forced, reason=reason)
        return json_response((await self._found(request, array.array_id))[1], status=202)

    async def release(
        self,
        request: Request,
        ref: Ref,
        *,
        gate: Annotated[str, Query(max_length=REASON_MAX, description="Only this gate; by default all.")] = "",
    ) -> Response:
        """Release all held sessions of an array; idempotent."""
        array, _ = await self._found(request, ref)
        caller = principal_of(request.scope).caller
        await self._controller.arrays.release(array, caller, gates=(gate,) if gate else ())
        return json_response((await self._found(request, array.array_id))[1])

    async def _found(self, request: Request, ref: str) -> tuple[ArrayRecord, ArrayView]:
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> tuple[ArrayRecord, ArrayView]:
            array = await array_named(unit, ref, principal)
            counts = await unit.arrays.counts([array.array_id])
            return array, array_view(array, counts[array.array_id])

        return await self._store.read(work)
