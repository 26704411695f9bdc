"""Route of past usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import require_known
from sokovan.api.context import ApiContext
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.api.routes.parameters import InScalingGroup
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.owners.access import UNOWNED, AccessSubject, Action, ObjectKind, Ownership, may
from sokovan.domain.owners.past_usage import PastUsage, UsageScope
from sokovan.domain.owners.tenancy import Group, User
from sokovan.domain.owners.usage_totals import UsageTotal, usage_totals
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.tenancy import UsagePage, UsageView

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


class UsageRoutes:
    """Past usage of users, groups and queues."""

    def __init__(self, context: ApiContext) -> None:
        self._store = context.dependencies.store

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="GET", path="/api/v1/usage", endpoint=self.list, tag="usage", answer=UsagePage, fails=(404,)
            )
        ]

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
