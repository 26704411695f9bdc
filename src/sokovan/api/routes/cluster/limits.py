"""Route of limits: what owners hold beside what their quotas allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeAlias

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.context import ApiContext
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.domain.owners.access import AccessSubject, Action, ObjectKind, Ownership, may
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, User
from sokovan.ports.repositories.ledger import SESSIONS_HELD
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.tenancy import OwnerLimitsPage, OwnerLimitsView

_KINDS = {
    Scope.DOMAIN: ObjectKind.DOMAIN,
    Scope.GROUP: ObjectKind.GROUP,
    Scope.USER: ObjectKind.USER,
    Scope.KEYPAIR: ObjectKind.KEY,
}
# An owner: its scope, its name, who owns it, and its policy.
_Owner: TypeAlias = tuple[Scope, str, Ownership, str | None]

OfKind: TypeAlias = Annotated[Scope | None, Query(description="Only owners of this kind.")]


class LimitRoutes:
    """The limits of owners."""

    def __init__(self, context: ApiContext) -> None:
        self._store = context.dependencies.store

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(method="GET", path="/api/v1/limits", endpoint=self.limits, tag="usage", answer=OwnerLimitsPage)
        ]

    async def limits(
        self, request: Request, kind: OfKind = None, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None
    ) -> Response:
        """List what owners with a quota hold now, and the most they may hold.

        Of the owners that the caller may see, by kind and name.
        """
        subject = principal_of(request.scope).subject

        async def work(unit: UnitOfWork) -> OwnerLimitsPage:
            policies = {one.name: one for one in await unit.catalog.all(ResourcePolicy)}
            found = [
                one
                for one in _seen(await _owners(unit), subject)
                if one[3] in policies and kind in {None, one[0]} and _limits(policies[one[3]])
            ]
            page, following = page_by_name(found, lambda one: f"{one[0]} {one[1]}", limit=limit, cursor=cursor)
            items = [await _view(unit, scope, name, policies[policy or ""]) for scope, name, _, policy in page]
            return OwnerLimitsPage(items=items, next=following)

        return json_response(await self._store.read(work))


def _limits(policy: ResourcePolicy) -> bool:
    return bool(len(policy.slots_max)) or policy.sessions_max is not None


async def _owners(unit: UnitOfWork) -> list[_Owner]:
    users = await unit.catalog.all(User)
    domains = {one.name: one.domain for one in users}
    return [
        *((Scope.DOMAIN, one.name, Ownership(domain=one.name), one.policy) for one in await unit.catalog.all(Domain)),
        *(
            (Scope.GROUP, one.name, Ownership(domain=one.domain, group=one.name), one.policy)
            for one in await unit.catalog.all(Group)
        ),
        *((Scope.USER, one.name, Ownership(domain=one.domain, user=one.name), one.policy) for one in users),
        *(
            (Scope.KEYPAIR, str(one.access_key), Ownership(domain=domains.get(one.user, ""), user=one.user), one.policy)
            for one in await unit.catalog.all(Keypair)
        ),
    ]


def _seen(owners: list[_Owner], subject: AccessSubject) -> Iterator[_Owner]:
    return (one for one in owners if may(subject, Action.SEE, _KINDS[one[0]], one[2]))


async def _view(unit: UnitOfWork, scope: Scope, name: str, policy: ResourcePolicy) -> OwnerLimitsView:
    held = await unit.ledger.usage(scope, name)
    return OwnerLimitsView(
        kind=scope.value,
        name=name,
        policy=policy.name,
        limits=dict(policy.slots_max),
        used={slot: held.get(slot, 0) for slot in policy.slots_max},
        sessions=held.get(SESSIONS_HELD, 0),
        sessions_max=policy.sessions_max,
    )
