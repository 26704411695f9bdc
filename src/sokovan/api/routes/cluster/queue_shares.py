"""Route of the shares of queues."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import require_known
from sokovan.api.context import ApiContext
from sokovan.api.operations import ApiOperation, json_response
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, NAME_PATTERN, ScalingGroupName
from sokovan.domain.owners.access import UNOWNED, Action, ObjectKind, may
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.scheduling.plan import QueueShare
from sokovan.wire.api.fleet import QueueSharesView, QueueShareView

InGroup: TypeAlias = Annotated[str, Query(pattern=NAME_PATTERN, description="In this scaling group.")]
OfQueue: TypeAlias = Annotated[str | None, Query(pattern=NAME_PATTERN, description="Of this queue only.")]


class QueueShareRoutes:
    """The shares of queues: in use, deserved and borrowed."""

    def __init__(self, context: ApiContext) -> None:
        self._store, self._controller = context.dependencies.store, context.dependencies.controller

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="GET", path="/api/v1/queue-shares", endpoint=self.shares, tag="queues",
                answer=QueueSharesView, fails=(404,),
            )
        ]  # fmt: skip

    async def shares(
        self, request: Request, scaling_group: InGroup = DEFAULT_SCALING_GROUP, queue: OfQueue = None
    ) -> Response:
        """List what queues use, deserve and borrow in a scaling group, by slot."""
        principal = principal_of(request.scope)
        wanted = SessionFilter(scaling_group=scaling_group, queue=queue or "")
        await self._store.read(lambda unit: require_known(unit, wanted))
        if not may(principal.subject, Action.SEE, ObjectKind.QUEUE, UNOWNED):
            return json_response(QueueSharesView(items=[]))
        user = principal.caller.owner.user
        cycles = await self._controller.dry_cycles(ScalingGroupName(scaling_group), user)
        views = [_view(one, scaling_group) for one in cycles.now.shares if queue in {None, one.queue}]
        return json_response(QueueSharesView(items=views))


def _view(share: QueueShare, scaling_group: str) -> QueueShareView:
    return QueueShareView(
        queue=share.queue,
        scaling_group=scaling_group,
        slot=share.slot,
        allocated=share.allocated,
        borrowed=share.borrowed,
        waiting=share.requested - share.allocated,
        guarantee=share.guarantee,
        limit=share.limit,
        deserved=share.deserved,
    )
