"""Routes of the whole fleet: agents, devices, and the sessions that hold them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.context import ApiContext
from sokovan.api.fleet.reader import FleetReader
from sokovan.api.fleet.stream import FleetStream
from sokovan.api.operations import EVENT_STREAM, ApiOperation
from sokovan.api.request_bodies import JSON_MEDIA
from sokovan.api.routes.streams.watching import PLACE_MAX
from sokovan.api.streaming.event_hub import NO_EVENTS
from sokovan.domain.owners.access import session_scope
from sokovan.wire.api.fleet import FleetView
from sokovan.wire.api.topology import FleetChangeView


class FleetRoutes:
    """The fleet as columns."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        clock, self._streams = dependencies.clock, context.streams
        self._reader = FleetReader(dependencies.store, dependencies.agents, dependencies.gateway, clock)
        self._changes = FleetStream(self._reader, self._streams, clock=clock, name=dependencies.ids.new("fleet"))

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(method="GET", path="/api/v1/fleet", endpoint=self.fleet, tag="agents", answer=FleetView),
            ApiOperation(
                method="GET", path="/api/v1/fleet/events", endpoint=self.fleet_changes, tag="watch",
                answer=FleetView | FleetChangeView, media=EVENT_STREAM,
            ),
        ]  # fmt: skip

    async def fleet(self, request: Request) -> Response:
        """Show all agents and devices, with the sessions that hold them, as columns.

        Sessions that the caller may not see are not named.
        """
        scope = session_scope(principal_of(request.scope).subject)
        return Response(await self._reader.body(await self._reader.current(), scope), media_type=JSON_MEDIA)

    async def fleet_changes(
        self, request: Request, last_event_id: Annotated[str | None, Header(max_length=PLACE_MAX)] = None
    ) -> Response:
        """Watch all agents and devices: their columns now, and then what changes in them.

        Server-sent events: `fleet` with a FleetView at first, and again for a reader who missed
        changes; `change` with a FleetChangeView, at most once a second. Sessions that the caller may
        not see are not named. `Last-Event-ID` resumes after that event, if the server still has
        what followed.
        """
        principal = principal_of(request.scope)
        scope = session_scope(principal.subject)
        return self._streams.response(
            principal, lambda ear: self._changes.follow(ear, scope, last_event_id or ""), session_id=NO_EVENTS
        )
