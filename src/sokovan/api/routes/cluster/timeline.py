"""Route of devices over time: who held them, drains, bookings and kept room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.lookup import agent_named, require_known
from sokovan.api.context import ApiContext
from sokovan.api.mapping.times import read_time, time_text
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.pagination import CURSOR_MAX, name_after, page_by_name
from sokovan.api.routes.cluster.device_times import booking_views, closed_views, hold_view, kept_view
from sokovan.api.routes.parameters import TIME_MAX, name_field
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.owners.access import UNOWNED, Action, ObjectKind, may, session_scope
from sokovan.domain.records import AgentRecord
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import TimelineView

HOUR_MS = 3_600_000
# Agents of a page: the history of each is read.
AGENTS_DEFAULT, AGENTS_MAX = 32, 100
HOLDS_MAX = 5_000


class TimelineQuery(BaseModel):
    """The time and the agents that are wanted."""

    model_config = ConfigDict(extra="forbid")

    since: str | None = Field(default=None, max_length=TIME_MAX, description="From this time; an hour before `until`.")
    until: str | None = Field(default=None, max_length=TIME_MAX, description="To this time; by default now.")
    agent: str | None = name_field("Only of this agent.")
    scaling_group: str | None = name_field("Only of agents of this scaling group.")
    limit: int = Field(default=AGENTS_DEFAULT, ge=1, le=AGENTS_MAX, description="The maximum number of agents.")
    cursor: str | None = Field(default=None, max_length=CURSOR_MAX, description="`next` of the previous page.")

    def span(self, now_ms: int) -> tuple[int, int]:
        """The time that is wanted. Raises InvalidSpec."""
        to_ms = now_ms if self.until is None else read_time(self.until, field="until", what="timeline")
        from_ms = to_ms - HOUR_MS if self.since is None else read_time(self.since, field="since", what="timeline")
        if from_ms >= to_ms:
            raise InvalidSpec(what="timeline", field="since", value=self.since, problem="is not before `until`")
        return max(0, from_ms), to_ms


class TimelineRoutes:
    """Devices over time."""

    def __init__(self, context: ApiContext) -> None:
        self._store = context.dependencies.store

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="GET", path="/api/v1/timeline", endpoint=self.timeline, tag="agents",
                answer=TimelineView, fails=(404,),
            )
        ]  # fmt: skip

    async def timeline(self, request: Request, query: Annotated[TimelineQuery, Query()]) -> Response:
        """Show who held the devices of agents over time, with drains and bookings.

        As long as the sessions are stored. Those that the caller may not see are not named.
        """
        principal = principal_of(request.scope)
        return json_response(await self._store.read(lambda unit: _view(unit, principal, query)))


async def _view(unit: UnitOfWork, principal: AuthenticatedPrincipal, query: TimelineQuery) -> TimelineView:
    from_ms, to_ms = query.span(unit.now_ms)
    agents, following = await _agents(unit, query)
    names = [str(one.info.agent_id) for one in agents]
    times = await unit.ledger.device_times(
        [one.info.agent_id for one in agents], from_ms=from_ms, to_ms=to_ms, most=HOLDS_MAX + 1
    )
    scope = session_scope(principal.subject)
    sees_bookings = may(principal.subject, Action.SEE, ObjectKind.BOOKING, UNOWNED)
    return TimelineView(
        since=time_text(from_ms),
        until=time_text(to_ms),
        agents=names,
        devices={str(one.info.agent_id): [device.device_id for device in one.devices] for one in agents},
        holds=[hold_view(one, scope) for one in times.holds[:HOLDS_MAX]],
        closed=[
            view
            for one in agents
            for view in closed_views(one, await unit.fleet.history(one.info.agent_id), from_ms=from_ms, to_ms=to_ms)
        ],
        bookings=await booking_views(unit, names, from_ms=from_ms, to_ms=to_ms) if sees_bookings else [],
        kept=[kept_view(one, scope) for one in times.kept],
        cut=len(times.holds) > HOLDS_MAX,
        next=following,
    )


async def _agents(unit: UnitOfWork, query: TimelineQuery) -> tuple[Sequence[AgentRecord], str | None]:
    if query.agent is not None:
        return [await agent_named(unit, query.agent)], None
    group, after = query.scaling_group or "", name_after(query.cursor)
    found = await unit.fleet.all(scaling_group=group, after=after, limit=query.limit + 1)
    if not found:
        await require_known(unit, SessionFilter(scaling_group=group))
    return page_by_name(found, lambda one: one.info.agent_id, limit=query.limit, cursor=query.cursor)
