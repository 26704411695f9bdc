"""Generic routes for administered objects: list, show, put, remove."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.lookup import kind_text, require, require_role
from sokovan.api.context import ApiContext
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.api.routes.parameters import Name
from sokovan.domain.errors import AlreadyExists, Conflict, ObjectNotFound
from sokovan.domain.ids import is_name
from sokovan.domain.owners.access import UNOWNED, Action, ObjectKind, Ownership, may
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.ports.storage import UnitOfWork

# Requests that name none use it, so it must exist.
DEFAULT_NAME = "default"
REQUIRED_KINDS = frozenset({ObjectKind.DOMAIN, ObjectKind.GROUP, ObjectKind.QUEUE, ObjectKind.SCALING_GROUP})

Item = TypeVar("Item")
Body = TypeVar("Body")


def system_owned(_item: object) -> Ownership:
    """The ownership of items that belong to the system."""
    return UNOWNED


async def remove_nothing_else(_unit: UnitOfWork, _principal: AuthenticatedPrincipal, _item: object) -> None:
    """The removal of items that nothing goes with."""


async def complete_already(_unit: UnitOfWork, item: Item) -> Item:
    """The item as the caller gave it."""
    return item


async def permit_all(_unit: UnitOfWork, _principal: AuthenticatedPrincipal, _item: object, _before: object) -> None:
    """The permission check of items that need none."""


def shown_whole(_principal: AuthenticatedPrincipal, item: Item) -> Item:
    """The item with all that it has."""
    return item


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[Item, Body]):
    """One kind of catalog item: its path, its types and its access rules.

    `permit` raises if the caller may not store the item, or the item is not valid; the
    item is None on removal. `complete` adds what the caller left to the server. `holders`
    looks up the ownership of items that do not contain it. `remove_with` removes what goes
    with the item. `shown` leaves out what a reader of the item may not know.
    """

    path: str
    kind: ObjectKind
    item: type[Item]
    body: type[Body]
    page: Callable[..., Any]
    view: Callable[[Item], Body]
    build: Callable[[Body, Item | None], Item]
    complete: Callable[[UnitOfWork, Item], Awaitable[Item]] = complete_already
    ownership: Callable[[Item], Ownership] = system_owned
    permit: Callable[[UnitOfWork, AuthenticatedPrincipal, Item | None, Item | None], Awaitable[None]] = permit_all
    holders: Callable[[UnitOfWork, AuthenticatedPrincipal], Awaitable[Callable[[Item], Ownership]]] | None = None
    remove_with: Callable[[UnitOfWork, AuthenticatedPrincipal, Item], Awaitable[None]] = remove_nothing_else
    shown: Callable[[AuthenticatedPrincipal, Item], Item] = shown_whole
    key: Callable[[Item], str] = lambda item: str(getattr(item, "name", ""))
    # The hint for an item of this key that does not exist; empty means the usual one.
    absence: Callable[[str], str] = lambda _key: ""


class CatalogRoutes(Generic[Item, Body]):
    """List, show, put and remove items of one kind."""

    def __init__(self, context: ApiContext, resource: Resource[Item, Body]) -> None:
        dependencies = context.dependencies
        self._store, self._hints = dependencies.store, dependencies.hints
        self._authenticator, self._resource = context.authenticator, resource

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        resource = self._resource
        tag, all_of = resource.path, f"/api/v1/{resource.path}"
        one = f"{all_of}/{{name:path}}"
        return [
            ApiOperation(method="GET", path=all_of, endpoint=self.list, tag=tag, answer=resource.page),
            ApiOperation(method="GET", path=one, endpoint=self.show, tag=tag, answer=resource.body, fails=(404,)),
            ApiOperation(
                method="PUT", path=one, endpoint=self.put, tag=tag,
                body=resource.body, answer=resource.body, also={201: resource.body}, fails=(404, 409),
            ),
            ApiOperation(method="DELETE", path=one, endpoint=self.remove, tag=tag, status=204, fails=(404, 409)),
        ]  # fmt: skip

    async def list(self, request: Request, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Response:
        """List the items that the caller may see, by name."""
        principal, resource = principal_of(request.scope), self._resource

        async def work(unit: UnitOfWork) -> tuple[Sequence[Item], Callable[[Item], Ownership]]:
            return await _all(unit, resource.item), await self._ownership(unit, principal)

        items, ownership = await self._store.read(work)
        seen = [item for item in items if may(principal.subject, Action.SEE, resource.kind, ownership(item))]
        page, following = page_by_name(seen, resource.key, limit=limit, cursor=cursor)
        return json_response(
            resource.page(items=[resource.view(resource.shown(principal, item)) for item in page], next=following)
        )

    async def show(self, request: Request, name: Name) -> Response:
        """Show one item."""
        principal = principal_of(request.scope)
        item = await self._store.read(lambda unit: self._seen(unit, principal, name))
        return json_response(self._resource.view(self._resource.shown(principal, item)))

    async def put(self, request: Request, name: Name) -> Response:
        """Create or replace an item; administrators only."""
        return await self._put(principal_of(request.scope), self._body(request, name), name)

    async def remove(self, request: Request, name: Name) -> Response:
        """Remove an item that is not referenced; administrators only."""
        return await self._remove(principal_of(request.scope), name)

    def _body(self, request: Request, name: str) -> Body:
        """The item of a request. Raises InvalidRequest if its name is another one."""
        body: Any = body_of(request, self._resource.body)
        if body.name != name:
            raise InvalidRequest([Problem("name", "does not match the name in the path")])
        return cast("Body", body)

    async def _put(self, principal: AuthenticatedPrincipal, body: Body, key: str) -> Response:
        return await self._store_item(principal, body, key, replace=True)

    async def _store_item(self, principal: AuthenticatedPrincipal, body: Body, key: str, *, replace: bool) -> Response:
        """Create an item, or replace it. Raises AlreadyExists if that is not wanted."""
        resource = self._resource
        require_role(principal, Action.CHANGE, resource.kind)

        async def work(unit: UnitOfWork) -> tuple[Item, bool]:
            if not replace:
                await _lock(unit, resource.item)
            before = await self._found(unit, key)
            if before is not None:
                require(principal, Action.CHANGE, resource.kind, resource.ownership(before), name=key)
                if not replace:
                    raise AlreadyExists(what=kind_text(resource.kind), name=key)
            item = await resource.complete(unit, resource.build(body, before))
            require(principal, Action.CHANGE, resource.kind, resource.ownership(item), name=key)
            await resource.permit(unit, principal, item, before)
            await _put(unit, item)
            await unit.audit.append(audit_entry(principal, f"{resource.kind}.put", key))
            return item, before is None

        item, is_new = await self._store.run(work)
        await self._notify(key)
        return json_response(resource.view(item), status=201 if is_new else 200)

    async def _remove(self, principal: AuthenticatedPrincipal, key: str) -> Response:
        resource = self._resource
        require_role(principal, Action.CHANGE, resource.kind)

        async def work(unit: UnitOfWork) -> None:
            item = await self._seen(unit, principal, key)
            require(principal, Action.CHANGE, resource.kind, resource.ownership(item), name=key)
            _require_removable(resource.kind, key)
            await resource.permit(unit, principal, None, item)
            await resource.remove_with(unit, principal, item)
            await _remove(unit, resource.item, key)
            await unit.audit.append(audit_entry(principal, f"{resource.kind}.remove", key))

        await self._store.run(work)
        await self._notify(key)
        return Response(status_code=204)

    async def _notify(self, key: str) -> None:
        """Notify the components that depend on the item."""
        if self._resource.kind is ObjectKind.USER:
            self._authenticator.forget_user(key)
        await self._hints.set(SESSIONS_HINT)

    async def _seen(self, unit: UnitOfWork, principal: AuthenticatedPrincipal, key: str) -> Item:
        item = await self._found(unit, key)
        if item is None:
            raise ObjectNotFound(what=kind_text(self._resource.kind), name=key, hint=self._resource.absence(key))
        ownership = await self._ownership(unit, principal)
        require(principal, Action.SEE, self._resource.kind, ownership(item), name=key)
        return item

    async def _ownership(self, unit: UnitOfWork, principal: AuthenticatedPrincipal) -> Callable[[Item], Ownership]:
        resource = self._resource
        return resource.ownership if resource.holders is None else await resource.holders(unit, principal)

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
    if kind in REQUIRED_KINDS and key == DEFAULT_NAME:
        hint = "change it instead; it is the default"
        raise Conflict(f"{kind_text(kind)} {DEFAULT_NAME} cannot be removed", hint=hint)


# The port's methods are typed per kind; here the kind is only known at run time.
async def _all(unit: Any, kind: type[Item]) -> list[Item]:
    return list(await unit.catalog.all(kind))


async def _get(unit: Any, kind: type[Item], key: str) -> Item:
    found: Item = await unit.catalog.get(kind, key)
    return found


async def _lock(unit: Any, kind: type) -> None:
    await unit.catalog.lock(kind)


async def _put(unit: Any, item: object) -> None:
    await unit.catalog.put(item)


async def _remove(unit: Any, kind: type, key: str) -> None:
    await unit.catalog.remove(kind, key)
