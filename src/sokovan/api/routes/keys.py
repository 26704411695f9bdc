"""Routes of API keys."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, new_token, principal_of, token_digest
from sokovan.api.context import ApiContext
from sokovan.api.errors import Forbidden
from sokovan.api.mapping.tenancy import key_view, new_key_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.api.routes.parameters import Name
from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import AccessKey, is_name
from sokovan.domain.owners.access import Action, ObjectKind, Ownership, may, may_act_for
from sokovan.domain.owners.tenancy import Keypair, Role, User
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.tenancy import KeyPage, KeyPolicyBody, KeyRequest, KeyView, NewKeyView

KEYS_MAX = 100


class KeyRoutes:
    """API keys without secrets; a token is shown once, on creation."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._ids = dependencies.store, dependencies.ids
        self._authenticator, self._pepper = context.authenticator, context.settings.pepper

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, every = "keys", "/api/v1/keys"
        return [
            ApiOperation(
                method="POST", path=every, endpoint=self.create, tag=tag,
                body=KeyRequest, answer=NewKeyView, status=201, fails=(404, 409),
            ),
            ApiOperation(method="GET", path=every, endpoint=self.list, tag=tag, answer=KeyPage),
            ApiOperation(
                method="PUT", path=f"{every}/{{access_key:path}}", endpoint=self.change, tag=tag,
                body=KeyPolicyBody, answer=KeyView, fails=(404,),
            ),
            ApiOperation(
                method="DELETE", path=f"{every}/{{access_key:path}}", endpoint=self.remove, tag=tag,
                status=204, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def create(self, request: Request) -> Response:
        """Create a key for the caller, or for a user the caller administers."""
        principal = principal_of(request.scope)
        body = body_of(request, KeyRequest)
        access_key = AccessKey(self._ids.new("AK"))
        token = new_token(access_key)

        async def work(unit: UnitOfWork) -> Keypair:
            user = await _user(unit, body.user)
            _require_own(principal, user)
            await _require_few(unit, user)
            _require_counted_once(principal, user)
            keypair = Keypair(access_key, user.name, policy=_policy_for(principal, body.policy))
            await unit.catalog.put(keypair)
            await unit.credentials.put(access_key, token_digest(token, self._pepper))
            await unit.audit.append(audit_entry(principal, "key.create", access_key, user=user.name))
            return keypair

        keypair = await self._store.run(work)
        return json_response(new_key_view(keypair, token), status=201)

    async def list(self, request: Request, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Response:
        """List the caller's keys, or those of the users the caller administers."""
        subject = principal_of(request.scope).subject

        async def work(unit: UnitOfWork) -> list[Keypair]:
            domains = {user.name: user.domain for user in await unit.catalog.all(User)}
            return [
                keypair
                for keypair in await unit.catalog.all(Keypair)
                if may(
                    subject,
                    Action.SEE,
                    ObjectKind.KEY,
                    Ownership(domain=domains.get(keypair.user, ""), user=keypair.user),
                )
            ]

        seen = await self._store.read(work)
        page, following = page_by_name(seen, lambda one: one.access_key, limit=limit, cursor=cursor)
        return json_response(KeyPage(items=[key_view(one) for one in page], next=following))

    async def change(self, request: Request, access_key: Name) -> Response:
        """Change the policy of a key; sessions that run are not ended by it."""
        principal, body = principal_of(request.scope), body_of(request, KeyPolicyBody)

        async def work(unit: UnitOfWork) -> Keypair:
            keypair, user = await _key(unit, access_key)
            _require_own(principal, user, name=access_key)
            if principal.subject.role is not Role.ADMIN:
                raise Forbidden("only administrators may change the policy of a key")
            changed = replace(keypair, policy=body.policy)
            await unit.catalog.put(changed)
            await unit.audit.append(audit_entry(principal, "key.change", access_key, policy=body.policy or ""))
            return changed

        changed = await self._store.run(work)
        self._authenticator.forget(changed.access_key)
        return json_response(key_view(changed))

    async def remove(self, request: Request, access_key: Name) -> Response:
        """Revoke a key within five seconds, open streams included."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> None:
            keypair, user = await _key(unit, access_key)
            _require_own(principal, user, name=access_key)
            await unit.credentials.remove([keypair.access_key])
            await unit.catalog.remove(Keypair, access_key)
            await unit.audit.append(audit_entry(principal, "key.remove", access_key, user=user.name))

        await self._store.run(work)
        self._authenticator.forget(AccessKey(access_key))
        return Response(status_code=204)


async def _key(unit: UnitOfWork, access_key: str) -> tuple[Keypair, User]:
    """A key and its user. Raises ObjectNotFound."""
    if not is_name(access_key):
        raise ObjectNotFound(what="key", name=access_key)
    try:
        keypair = await unit.catalog.get(Keypair, access_key)
        return keypair, await unit.catalog.get(User, keypair.user)
    except ObjectNotFound:
        raise ObjectNotFound(what="key", name=access_key) from None


async def _user(unit: UnitOfWork, name: str) -> User:
    if not is_name(name):
        raise ObjectNotFound(what="user", name=name)
    return await unit.catalog.get(User, name)


async def _require_few(unit: UnitOfWork, user: User) -> None:
    """Raises Conflict for a user with the maximum number of keys."""
    count = sum(keypair.user == user.name for keypair in await unit.catalog.all(Keypair))
    if count >= KEYS_MAX:
        raise Conflict(f"user {user.name} has {count} keys", hint="revoke unused keys")


def _require_own(principal: AuthenticatedPrincipal, user: User, *, name: str = "") -> None:
    """Raises ObjectNotFound for a hidden user, Forbidden for a higher role."""
    ownership = Ownership(domain=user.domain, user=user.name)
    if not may(principal.subject, Action.CHANGE, ObjectKind.KEY, ownership):
        raise ObjectNotFound(what="key" if name else "user", name=name or user.name)
    # A key of a user with a higher role would raise the caller's own role.
    if not may_act_for(principal.subject, user.name, user.role):
        raise Forbidden(f"user {user.name} is {user.role}, a higher role than {principal.subject.role}")


def _require_counted_once(principal: AuthenticatedPrincipal, user: User) -> None:
    """Raises Forbidden if a second key would give its user the limits of the first again."""
    limited = principal.identity.keypair.policy is not None and principal.subject.role is not Role.ADMIN
    if limited and user.name == principal.user:
        raise Forbidden(
            f"key {principal.access_key} has limits of its own, which another key of {user.name} would have again; "
            "only administrators create it"
        )


def _policy_for(principal: AuthenticatedPrincipal, wanted: str | None) -> str | None:
    """The policy of a new key: by default that of the creating key."""
    if principal.subject.role is Role.ADMIN:
        return wanted
    own = principal.identity.keypair.policy
    if wanted not in {None, own}:
        raise Forbidden(f"only administrators may choose the policy of a key; the caller's is {own or 'none'}")
    return own
