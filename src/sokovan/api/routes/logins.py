"""Routes of logins: browsers that use the dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, new_secret, principal_of, token_digest
from sokovan.api.access.logins import LOGINS_PATH, joined, set_cookie
from sokovan.api.context import ApiContext
from sokovan.api.errors import Forbidden, Unauthenticated
from sokovan.api.mapping.tenancy import login_code_view, login_view, new_login_view
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.api.routes.parameters import Name
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import is_name
from sokovan.domain.owners.access import Action, ObjectKind, Ownership, may
from sokovan.domain.owners.login import LOGIN_CODE_S, LOGIN_CODES_MAX, LOGINS_MAX, Login, LoginCode
from sokovan.domain.owners.tenancy import User
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.tenancy import LoginCodeView, LoginPage, NewLoginView


class LoginRoutes:
    """Logins without secrets; the proof is shown once, to the browser that logs in."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._ids = dependencies.store, dependencies.ids
        self._authenticator, self._pepper = context.authenticator, context.settings.pepper

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag = "logins"
        return [
            ApiOperation(
                method="POST", path="/api/v1/login-codes", endpoint=self.create_code, tag=tag,
                answer=LoginCodeView, status=201,
            ),
            ApiOperation(
                method="POST", path=LOGINS_PATH, endpoint=self.create, tag=tag, answer=NewLoginView, status=201,
            ),
            ApiOperation(method="GET", path=LOGINS_PATH, endpoint=self.list, tag=tag, answer=LoginPage),
            ApiOperation(
                method="DELETE", path=f"{LOGINS_PATH}/{{name}}", endpoint=self.remove, tag=tag, status=204, fails=(404,)
            ),
        ]  # fmt: skip

    async def create_code(self, request: Request) -> Response:
        """Create a code that logs a browser in once, within a minute.

        It is sent as `Authorization: Login-Code CODE` when the login is created.
        """
        principal = principal_of(request.scope)
        _require_key(principal)
        code = f"{self._ids.new('LC')}.{new_secret()}"
        name = code.partition(".")[0]

        async def work(unit: UnitOfWork) -> LoginCode:
            now_ms = unit.now_ms
            known = await unit.catalog.all(LoginCode)
            own = sorted((one for one in known if one.user == principal.user), key=lambda one: one.expires_ms)
            late = {one.name for one in known if not one.is_live(now_ms)}
            for one in {*late, *(one.name for one in own[: max(0, len(own) - LOGIN_CODES_MAX + 1)])}:
                await unit.catalog.remove(LoginCode, one)
            made = LoginCode(
                name=name,
                access_key=principal.access_key,
                user=principal.user,
                digest=token_digest(code, self._pepper),
                expires_ms=now_ms + LOGIN_CODE_S * 1000,
            )
            await unit.catalog.put(made)
            await unit.audit.append(audit_entry(principal, "login-code.create", name))
            return made

        return json_response(login_code_view(await self._store.run(work), code), status=201)

    async def create(self, request: Request) -> Response:
        """Log a browser in, with a key or with a login code.

        One half of the login is in the cookie of the response, the other is `proof`, which
        later requests send as `X-Sokovan-Proof`.
        """
        principal = principal_of(request.scope)
        _require_key(principal)
        cookie, proof = f"{self._ids.new('LI')}.{new_secret()}", new_secret()
        halves = joined(cookie, proof)

        async def work(unit: UnitOfWork) -> Login:
            if principal.code_id:
                await _take_code(unit, principal.code_id)
            await _make_room(unit, principal.user)
            made = Login(
                name=halves.login_id,
                access_key=principal.access_key,
                user=principal.user,
                digest=token_digest(halves.secret, self._pepper),
                created_ms=unit.now_ms,
                used_ms=unit.now_ms,
                address=principal.address,
            )
            await unit.catalog.put(made)
            by = "code" if principal.code_id else "key"
            await unit.audit.append(audit_entry(principal, "login.create", made.name, by=by))
            return made

        login = await self._store.run(work)
        headers = {"Set-Cookie": set_cookie(request.headers, cookie)}
        return json_response(new_login_view(login, proof), status=201, headers=headers)

    async def list(self, request: Request, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Response:
        """List the caller's logins, or those of the users the caller administers."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> Sequence[Login]:
            live = [one for one in await unit.catalog.all(Login) if one.is_live(unit.now_ms)]
            return await _of(principal, unit, live, Action.SEE)

        seen = await self._store.read(work)
        page, following = page_by_name(seen, lambda one: one.name, limit=limit, cursor=cursor)
        views = [login_view(one, current=principal.login_id) for one in page]
        return json_response(LoginPage(items=views, next=following))

    async def remove(self, request: Request, name: Name) -> Response:
        """End a login within five seconds, open streams included."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> Login:
            found = (await unit.catalog.find((Login, name)))[0] if is_name(name) else None
            if not isinstance(found, Login) or not await _of(principal, unit, [found], Action.CHANGE):
                raise ObjectNotFound(what="login", name=name)
            await unit.catalog.remove(Login, name)
            await unit.audit.append(audit_entry(principal, "login.remove", name, user=found.user))
            return found

        removed = await self._store.run(work)
        self._authenticator.forget(removed.access_key)
        own = name == principal.login_id
        return Response(status_code=204, headers={"Set-Cookie": set_cookie(request.headers, "")} if own else None)


async def _take_code(unit: UnitOfWork, name: str) -> None:
    """Use a code up. Raises Unauthenticated if another request was first."""
    try:
        await unit.catalog.remove(LoginCode, name)
    except ObjectNotFound:
        raise Unauthenticated from None


async def _make_room(unit: UnitOfWork, user: str) -> None:
    """Remove logins that have ended, and the oldest of a user with the maximum number of them."""
    known = await unit.catalog.all(Login)
    live = sorted((one for one in known if one.is_live(unit.now_ms) and one.user == user), key=lambda one: one.used_ms)
    ended = [one for one in known if not one.is_live(unit.now_ms)]
    for one in [*ended, *live[: max(0, len(live) - LOGINS_MAX + 1)]]:
        await unit.catalog.remove(Login, one.name)


async def _of(
    principal: AuthenticatedPrincipal, unit: UnitOfWork, logins: Sequence[Login], action: Action
) -> Sequence[Login]:
    """Those of these logins on which the caller may do this: the rules are those of keys."""
    domains = {user.name: user.domain for user in await unit.catalog.all(User)}
    return [
        one
        for one in logins
        if may(principal.subject, action, ObjectKind.KEY, Ownership(domain=domains.get(one.user, ""), user=one.user))
    ]


def _require_key(principal: AuthenticatedPrincipal) -> None:
    """Raises Forbidden for a login: it would last longer than it may."""
    if principal.login_id:
        raise Forbidden("a login does not begin another one", hint="use a key: sokovan dashboard")
