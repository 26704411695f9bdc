"""Routes of past usage: as fair share sees it, and over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import require_known, visible_filter
from sokovan.api.context import ApiContext
from sokovan.api.mapping.times import DURATION_MAX_S, read_time, time_text
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.api.routes.parameters import InScalingGroup, SessionChoice, name_field
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.owners.access import UNOWNED, AccessSubject, Action, ObjectKind, Ownership, may
from sokovan.domain.owners.past_usage import PastUsage, UsageScope, slot_weight, unit_of
from sokovan.domain.owners.tenancy import Group, User
from sokovan.domain.owners.usage_history import UsageBy, UsageSeries, UsageWindow, default_step_ms
from sokovan.domain.owners.usage_totals import UsageTotal, usage_totals
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.tenancy import UsageHistoryView, UsagePage, UsageSeriesView, UsageView

# Names of a history that are listed.
NAMES_LISTED = 50
TIME_MAX = 40
_DAY_MS = 24 * 3600 * 1000
_KINDS = {
    UsageScope.USER: ObjectKind.USER,
    UsageScope.GROUP: ObjectKind.GROUP,
    UsageScope.QUEUE: ObjectKind.QUEUE,
}


@dataclass(frozen=True, slots=True)
class _Owners:
    """Users and groups by name; usage may outlive them."""

    users: Mapping[str, User]
    groups: Mapping[str, Group]

    def ownership(self, scope: UsageScope, name: str) -> Ownership:
        """The owner of usage; unknown names are seen by administrators only."""
        match scope:
            case UsageScope.USER:
                user = self.users.get(name)
                return UNOWNED if user is None else Ownership(domain=user.domain, user=name)
            case UsageScope.GROUP:
                group = self.groups.get(name)
                return UNOWNED if group is None else Ownership(domain=group.domain, group=name)
            case UsageScope.QUEUE:
                return UNOWNED

    def weight(self, scope: UsageScope, name: str) -> int:
        """The weight in fair share."""
        owner = self.users.get(name) if scope is UsageScope.USER else self.groups.get(name)
        return 1 if owner is None or scope is UsageScope.QUEUE else owner.weight


class UsageHistoryQuery(SessionChoice):
    """The window of a history, and what it is divided by."""

    since: str | None = Field(default=None, max_length=TIME_MAX, description="From this time on; a day before `until`.")
    until: str | None = Field(default=None, max_length=TIME_MAX, description="To this time; now by default.")
    step: int | None = Field(default=None, ge=1, le=DURATION_MAX_S, description="Seconds of a step; 10 or more.")
    by: UsageBy = Field(default=UsageBy.ALL, description="The property of sessions that it is divided by.")
    slot: str | None = name_field("Only this slot.")

    def window(self, now_ms: int) -> UsageWindow:
        """The window; it does not go beyond now. Raises InvalidSpec."""
        to_ms = min(now_ms, now_ms if self.until is None else read_time(self.until, field="until", what="window"))
        from_ms = to_ms - _DAY_MS if self.since is None else read_time(self.since, field="since", what="window")
        step_ms = default_step_ms(to_ms - from_ms) if self.step is None else self.step * 1000
        return UsageWindow(max(0, from_ms), to_ms, step_ms)


class UsageRoutes:
    """Past usage of users, groups and queues."""

    def __init__(self, context: ApiContext) -> None:
        self._store = context.dependencies.store

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="GET", path="/api/v1/usage", endpoint=self.list, tag="usage", answer=UsagePage, fails=(404,)
            ),
            ApiOperation(
                method="GET", path="/api/v1/usage/history", endpoint=self.history, tag="usage",
                answer=UsageHistoryView, fails=(404,),
            ),
        ]  # fmt: skip

    async def list(
        self, request: Request, scaling_group: InScalingGroup = None, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None
    ) -> Response:
        """List the past usage of users, groups and queues that the caller may see."""
        subject = principal_of(request.scope).subject
        chosen = None if scaling_group is None else ScalingGroupName(scaling_group)

        async def work(unit: UnitOfWork) -> list[UsageView]:
            await require_known(unit, SessionFilter(scaling_group=scaling_group or ""))
            return await _views(unit, subject, chosen)

        views = await self._store.read(work)
        page, following = page_by_name(views, _place, limit=limit, cursor=cursor)
        return json_response(UsagePage(items=page, next=following))

    async def history(self, request: Request, query: Annotated[UsageHistoryQuery, Query()]) -> Response:
        """Show the slots that sessions of the caller's view held over time, as means of equal steps.

        Exact as long as the sessions are stored; by default of the last 24 hours.
        """
        scope = visible_filter(principal_of(request.scope), query.filter())

        async def work(unit: UnitOfWork) -> UsageHistoryView:
            window = query.window(unit.now_ms)
            found = await unit.ledger.usage_history(scope, window, query.by) if scope is not None else []
            if scope is not None and not found:
                await require_known(unit, scope)
            return _history_view(window, query.by, [one for one in found if query.slot in {None, one.slot}])

        return json_response(await self._store.read(work))


def _history_view(window: UsageWindow, by: UsageBy, series: Sequence[UsageSeries]) -> UsageHistoryView:
    # By device, then by core: those who held the most are listed.
    weight: Counter[str] = Counter()
    for one in series:
        weight[one.name] += sum(one.used) * slot_weight(one.slot, {}) // unit_of(one.slot)
    listed = dict(weight.most_common(NAMES_LISTED))
    return UsageHistoryView(
        since=time_text(window.from_ms),
        until=time_text(window.to_ms),
        step_s=window.step_ms // 1000,
        by=by.value,
        items=[
            UsageSeriesView(name=one.name, slot=one.slot, used=list(one.used)) for one in series if one.name in listed
        ],
        left_out=len(weight) - len(listed),
    )


async def _views(unit: UnitOfWork, subject: AccessSubject, chosen: ScalingGroupName | None) -> list[UsageView]:
    owners = _Owners(
        {user.name: user for user in await unit.catalog.all(User)},
        {group.name: group for group in await unit.catalog.all(Group)},
    )
    rows: dict[str, list[PastUsage]] = {}
    for row in await unit.ledger.past_usage(chosen):
        scope, name = row.key.scope, row.key.name
        if may(subject, Action.SEE, _KINDS[scope], owners.ownership(scope, name)):
            rows.setdefault(row.key.scaling_group, []).append(row)
    groups = {str(group.name): group for group in await unit.catalog.all(ScalingGroup)}
    return [
        _view(name, total, owners.weight(total.scope, total.name))
        for name, found in rows.items()
        if name in groups
        for total in _totals(groups[name], found, unit.now_ms)
    ]


def _totals(group: ScalingGroup, rows: Sequence[PastUsage], now_ms: int) -> list[UsageTotal]:
    return usage_totals(rows, now_ms=now_ms, half_life_s=group.usage_half_life_s, slot_weights=group.slot_weights)


def _view(scaling_group: str, total: UsageTotal, weight: int) -> UsageView:
    return UsageView(
        scaling_group=scaling_group,
        kind=total.scope.value,
        name=total.name,
        weight=weight,
        slots={slot: used // 1000 for slot, used in total.slots.items()},
        weighted=total.weighted // 1000,
        share=total.weighted // 1000 // weight,
    )


def _place(view: UsageView) -> str:
    """The position in the list; names contain no blanks."""
    return f"{view.scaling_group} {view.kind} {view.name}"
