"""Generic routes for administered objects: list, show, put, remove."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.lookup import kind_text, require, require_role
from sokovan.api.context import ApiContext
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.api.routes.parameters import Name
from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import is_name
from sokovan.domain.owners.access import UNOWNED, Action, ObjectKind, Ownership, may
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.ports.storage import UnitOfWork

# The default of requests that name none, so it must exist.
USUAL = "default"
ALWAYS_THERE = frozenset({ObjectKind.DOMAIN, ObjectKind.GROUP, ObjectKind.QUEUE, ObjectKind.SCALING_GROUP})

Item = TypeVar("Item")
Body = TypeVar("Body")


def system_owned(_item: object) -> Ownership:
    """The ownership of items that belong to the system."""
    return UNOWNED


async def permit_all(_unit: UnitOfWork, _principal: AuthenticatedPrincipal, _item: object, _before: object) -> None:
    """The permission check of items that need none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[Item, Body]):
    """One kind of catalog item: its path, its types and its access rules.

    `permit` raises if the caller may not store the item, or the item is not valid; the
    item is None on removal. `holders` looks up the ownership of items that do not contain
    it.
    """

    path: str
    kind: ObjectKind
    item: type[Item]
    body: type[Body]
    page: Callable[..., Any]
    view: Callable[[Item], Body]
    build: Callable[[Body, Item | None], Item]
    ownership: Callable[[Item], Ownership] = system_owned
    permit: Callable[[UnitOfWork, AuthenticatedPrincipal, Item | None, Item | None], Awaitable[None]] = permit_all
    holders: Callable[[UnitOfWork, AuthenticatedPrincipal], Awaitable[Callable[[Item], Ownership]]] | None = None
    key: Callable[[Item], str] = lambda item: str(getattr(item, "name", ""))


class CatalogRoutes(Generic[Item, Body]):
    """List, show, put and remove items of one kind."""

    def __init__(self, context: ApiContext, resource: Resource[Item, Body]) -> None:
        self._dependencies, self._authenticator, self._resource = context.dependencies, context.authenticator, resource

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        of = self._resource
        tag, all_of = of.path, f"/api/v1/{of.path}"
        one = f"{all_of}/{{name:path}}"
        return [
            ApiOperation(method="GET", path=all_of, endpoint=self.list, tag=tag, answer=of.page),
            ApiOperation(method="GET", path=one, endpoint=self.show, tag=tag, answer=of.body, fails=(404,)),
            ApiOperation(
                method="PUT", path=one, endpoint=self.put, tag=tag,
                body=of.body, answer=of.body, also={201: of.body}, fails=(404, 409),
            ),
            ApiOperation(method="DELETE", path=one, endpoint=self.remove, tag=tag, status=204, fails=(404, 409)),
        ]  # fmt: skip

    async def list(self, request: Request, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Response:
        """List the items that the caller may see, by name."""
        principal, of = principal_of(request.scope), self._resource

        async def work(unit: UnitOfWork) -> tuple[Sequence[Item], Callable[[Item], Ownership]]:
            return await _all(unit, of.item), await self._ownership(unit, principal)

        every, whose = await self._dependencies.store.read(work)
        seen = [item for item in every if may(principal.subject, Action.SEE, of.kind, whose(item))]
        page, following = page_by_name(seen, of.key, limit=limit, cursor=cursor)
        return json_response(of.page(items=[of.view(item) for item in page], next=following))

    async def show(self, request: Request, name: Name) -> Response:
        """Show one item."""
        principal = principal_of(request.scope)
        item = await self._dependencies.store.read(lambda unit: self._seen(unit, principal, name))
        return json_response(self._resource.view(item))

    async def put(self, request: Request, name: Name) -> Response:
        """Create or replace an item; administrators only."""
        body: Any = body_of(request, self._resource.body)
        if body.name != name:
            raise InvalidRequest([Problem("name", "does not match the name in the path")])
        return await self._put(principal_of(request.scope), body, name)

    async def remove(self, request: Request, name: Name) -> Response:
        """Remove an item that is not referenced; administrators only."""
        return await self._remove(principal_of(request.scope), name)

    async def _put(self, principal: AuthenticatedPrincipal, body: Body, key: str) -> Response:
        of = self._resource
        require_role(principal, Action.CHANGE, of.kind)

        async def work(unit: UnitOfWork) -> tuple[Item, bool]:
            before = await self._found(unit, key)
            if before is not None:
                require(principal, Action.CHANGE, of.kind, of.ownership(before), name=key)
            item = of.build(body, before)
            require(principal, Action.CHANGE, of.kind, of.ownership(item), name=key)
            await of.permit(unit, principal, item, before)
            await _put(unit, item)
            await unit.audit.append(audit_entry(principal, f"{of.kind}.put", key))
            return item, before is None

        item, is_new = await self._dependencies.store.run(work)
        await self._notify(key)
        return json_response(of.view(item), status=201 if is_new else 200)

    async def _remove(self, principal: AuthenticatedPrincipal, key: str) -> Response:
        of = self._resource
        require_role(principal, Action.CHANGE, of.kind)

        async def work(unit: UnitOfWork) -> None:
            item = await self._seen(unit, principal, key)
            require(principal, Action.CHANGE, of.kind, of.ownership(item), name=key)
            _require_removable(of.kind, key)
            await of.permit(unit, principal, None, item)
            await _remove(unit, of.item, key)
            await unit.audit.append(audit_entry(principal, f"{of.kind}.remove", key))

        await self._dependencies.store.run(work)
        await self._notify(key)
        return Response(status_code=204)

    async def _notify(self, key: str) -> None:
        """Notify the components that depend on the item."""
        if self._resource.kind is ObjectKind.USER:
            self._authenticator.forget_user(key)
        await self._dependencies.hints.set("sessions")

    async def _seen(self, unit: UnitOfWork, principal: AuthenticatedPrincipal, key: str) -> Item:
        item = await self._found(unit, key)
        if item is None:
            raise ObjectNotFound(what=kind_text(self._resource.kind), name=key)
        whose = await self._ownership(unit, principal)
        require(principal, Action.SEE, self._resource.kind, whose(item), name=key)
        return item

    async def _ownership(self, unit: UnitOfWork, principal: AuthenticatedPrincipal) -> Callable[[Item], Ownership]:
        of = self._resource
        return of.ownership if of.holders is None else await of.holders(unit, principal)

    async def _found(self, unit: UnitOfWork, key: str) -> Item | None:
        # Invalid names are not looked up: some databases reject such strings.
        if not all(is_name(part) for part in key.split(" ", 1)):
            return None
        try:
            return await _get(unit, self._resource.item, key)
        except ObjectNotFound:
            return None


def _require_removable(kind: ObjectKind, key: str) -> None:
    """Raises Conflict for a default item."""
    if kind in ALWAYS_THERE and key == USUAL:
        hint = "change it instead; it is the default"
        raise Conflict(f"{kind_text(kind)} {USUAL} cannot be removed", hint=hint)


# The port's methods are typed per kind; here the kind is only known at run time.
async def _all(unit: Any, kind: type[Item]) -> list[Item]:
    return list(await unit.catalog.all(kind))


async def _get(unit: Any, kind: type[Item], key: str) -> Item:
    found: Item = await unit.catalog.get(kind, key)
    return found


async def _put(unit: Any, item: object) -> None:
    await unit.catalog.put(item)


async def _remove(unit: Any, kind: type, key: str) -> None:
    await unit.catalog.remove(kind, key)
