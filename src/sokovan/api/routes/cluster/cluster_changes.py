"""Route that compares plans: as the cluster is, and as it would be after changes."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import require_known, require_role
from sokovan.api.context import ApiContext
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, AgentId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.domain.records import SessionSummary
from sokovan.orchestrator.sessions.explain.plan import DryCycles
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.scheduling.cluster_changes import ClusterChanges, PlanDifference, differences
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.trace import Code
from sokovan.wire.api.fleet import WhatIfBody, WhatIfPlanView, WhatIfSessionView, WhatIfShareView, WhatIfView

SESSIONS_LISTED = 200


class WhatIfRoutes:
    """Dry runs of changes of the cluster."""

    def __init__(self, context: ApiContext) -> None:
        self._store, self._controller = context.dependencies.store, context.dependencies.controller

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="POST", path="/api/v1/what-if", endpoint=self.compare, tag="agents",
                body=WhatIfBody, answer=WhatIfView, fails=(404, 409), stores_nothing=True,
            )
        ]  # fmt: skip

    async def compare(self, request: Request) -> Response:
        """Compare the next scheduling cycle with one after changes of the cluster.

        Drains, weights of queues and new machines; nothing is changed. For
        administrators, because it shows the sessions of all users.
        """
        principal, body = principal_of(request.scope), body_of(request, WhatIfBody)
        require_role(principal, Action.CHANGE, ObjectKind.AGENT)
        group = body.scaling_group or DEFAULT_SCALING_GROUP
        changes = ClusterChanges(
            drain=frozenset(map(AgentId, body.drain)),
            weights={QueueName(name): weight for name, weight in body.weights.items()},
            add={AgentId(name): count for name, count in body.add.items()},
        )
        await self._store.read(lambda unit: require_known(unit, SessionFilter(scaling_group=group)))
        cycles = await self._controller.dry_cycles(ScalingGroupName(group), principal.user, changes)
        found = differences(cycles.now, cycles.after)
        ids = tuple(SessionId(one.session_id) for one in found[:SESSIONS_LISTED])
        named = await self._store.read(
            lambda unit: unit.sessions.summaries(SessionFilter(ids=ids), limit=len(ids) or 1)
        )
        return json_response(_view(cycles, found, {one.session_id: one for one in named} if ids else {}))


def _view(cycles: DryCycles, found: Sequence[PlanDifference], named: dict[SessionId, SessionSummary]) -> WhatIfView:
    sessions = [
        WhatIfSessionView(
            id=record.session_id,
            name=record.spec.name or record.session_id,
            user=record.spec.owner.user,
            queue=record.spec.queue,
            before=one.before.value,
            after=one.after.value,
        )
        for one in found
        if (record := named.get(SessionId(one.session_id))) is not None
    ]
    deserved = {(share.queue, share.slot): share.deserved for share in cycles.after.shares}
    return WhatIfView(
        before=_plan(cycles.now),
        after=_plan(cycles.after),
        sessions=sessions,
        left_out=len(found) - len(sessions),
        shares=[
            WhatIfShareView(queue=one.queue, slot=one.slot, before=one.deserved, after=deserved[one.queue, one.slot])
            for one in cycles.now.shares
            if deserved.get((one.queue, one.slot), one.deserved) != one.deserved
        ],
    )


def _plan(plan: SchedulingPlan) -> WhatIfPlanView:
    starts = sum(verdict.code is Code.PLACED for verdict in plan.verdicts)
    return WhatIfPlanView(starts=starts, waits=len(plan.verdicts) - starts, evicts=len(plan.evictions))
