"""Route of the audit log."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import require
from sokovan.api.context import ApiContext
from sokovan.api.mapping.times import time_text
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.pagination import CURSOR_MAX, PAGE_DEFAULT, PAGE_MAX, cursor_of, number_of
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.system import AuditChainView, AuditEntryPage, AuditEntryView

TEXT_MAX = 200
# Entries that one request looks at, and reads at once.
LOOKED_AT_MAX = 10_000
READ_AT_ONCE = 1_000


class AuditQuery(BaseModel):
    """The filters and the page of the audit log; a missing filter matches all."""

    model_config = ConfigDict(extra="forbid")

    who: str = Field(default="", max_length=TEXT_MAX, description="Of this user.")
    action: str = Field(default="", max_length=TEXT_MAX, description="This action, or all that begin so: `session`.")
    target: str = Field(default="", max_length=TEXT_MAX, description="On the object with exactly this name.")
    limit: int = Field(default=PAGE_DEFAULT, ge=1, le=PAGE_MAX, description="The maximum number of items.")
    cursor: str | None = Field(default=None, max_length=CURSOR_MAX, description="`next` of the previous page.")

    def matches(self, entry: AuditEntry) -> bool:
        """Whether an entry meets the filters."""
        return (
            self.who in {"", entry.who}
            and (not self.action or entry.action == self.action or entry.action.startswith(f"{self.action}."))
            and self.target in {"", entry.target}
        )


class AuditLogRoutes:
    """The audit log."""

    def __init__(self, context: ApiContext) -> None:
        self._store = context.dependencies.store
        self._checking: asyncio.Future[AuditChainView] | None = None

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="GET", path="/api/v1/audit-log", endpoint=self.list, tag="system", answer=AuditEntryPage
            ),
            ApiOperation(
                method="GET", path="/api/v1/audit-log/chain", endpoint=self.chain, tag="system", answer=AuditChainView
            ),
        ]

    async def list(self, request: Request, query: Annotated[AuditQuery, Query()]) -> Response:
        """List the entries of the audit log, newest first; administrators only."""
        require(principal_of(request.scope), Action.SEE, ObjectKind.SYSTEM, name="audit log")
        after = number_of(query.cursor) or 0
        return json_response(await self._store.read(lambda unit: _page(unit, query, after)))

    async def chain(self, request: Request) -> Response:
        """Check that no entry of the audit log was changed; administrators only.

        All entries are read. Requests that come meanwhile get the same answer.
        """
        require(principal_of(request.scope), Action.SEE, ObjectKind.SYSTEM, name="audit log")
        if self._checking is None or self._checking.done():
            self._checking = asyncio.ensure_future(self._store.read(_chain))
        return json_response(await asyncio.shield(self._checking))


async def _chain(unit: UnitOfWork) -> AuditChainView:
    broken = await unit.audit.first_broken()
    return AuditChainView(intact=broken is None, checked_at=time_text(unit.now_ms), first_broken=broken)


async def _page(unit: UnitOfWork, query: AuditQuery, after: int) -> AuditEntryPage:
    found: list[AuditEntryView] = []
    for _ in range(LOOKED_AT_MAX // READ_AT_ONCE):
        rows = await unit.audit.page(limit=READ_AT_ONCE, after=after, newest=True)
        for number, at_ms, entry in rows:
            after = number
            if query.matches(entry):
                found.append(_view(number, at_ms, entry))
            if len(found) == query.limit:
                break
        if len(found) == query.limit:
            break
        if len(rows) < READ_AT_ONCE:
            return AuditEntryPage(items=found)
    return AuditEntryPage(items=found, next=cursor_of(after) if after > 1 else None)


def _view(number: int, at_ms: int, entry: AuditEntry) -> AuditEntryView:
    return AuditEntryView(
        number=number, at=time_text(at_ms), who=entry.who, action=entry.action, target=entry.target,
        outcome=entry.outcome, request_id=entry.request_id, detail=dict(entry.detail),
    )  # fmt: skip
