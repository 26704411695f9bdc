"""Routes of join tokens: the right of one machine to join, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import new_secret, principal_of
from sokovan.api.access.lookup import require_role
from sokovan.api.context import ApiContext
from sokovan.api.mapping.agent_actions import join_token_line, join_token_of, join_token_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.api.routes.parameters import Name
from sokovan.domain.cluster.agent_grant import JOIN_TOKENS_KEPT_MAX, JOIN_TOKENS_MAX, JoinToken, join_digest
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import is_name
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.domain.slot_notation import format_slots
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.tenancy import JoinTokenBody, JoinTokenPage, JoinTokenView


class JoinTokenRoutes:
    """Routes of join tokens; administrators only."""

    def __init__(self, context: ApiContext) -> None:
        self._dependencies = context.dependencies

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag = "agents"
        return [
            ApiOperation(
                method="POST", path="/api/v1/join-tokens", endpoint=self.create, tag=tag,
                body=JoinTokenBody, answer=JoinTokenView, status=201, fails=(404, 409),
            ),
            ApiOperation(
                method="GET", path="/api/v1/join-tokens", endpoint=self.tokens, tag=tag, answer=JoinTokenPage,
            ),
            ApiOperation(
                method="DELETE", path="/api/v1/join-tokens/{name:path}", endpoint=self.revoke_token, tag=tag,
                status=204, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def create(self, request: Request) -> Response:
        """Create a token that lets one machine join; its secret is shown once."""
        principal = principal_of(request.scope)
        require_role(principal, Action.CHANGE, ObjectKind.AGENT)
        body, joining = body_of(request, JoinTokenBody), self._dependencies.joining
        if joining is None:
            raise Conflict(
                "this server has no listener for other machines", hint="start it with sokovan up --listen HOST:PORT"
            )
        name, secret = self._dependencies.ids.new("join"), new_secret()

        async def work(unit: UnitOfWork) -> JoinToken:
            group = await unit.catalog.get(ScalingGroup, body.scaling_group)
            await _make_room(unit)
            token = join_token_of(body, name, join_digest(secret), who=principal.user, now_ms=unit.now_ms)
            await unit.catalog.put(token)
            given = {"scaling_group": group.name, "slots": format_slots(token.slots), "labels": _texts(token.labels)}
            detail = {key: text for key, text in given.items() if text}
            await unit.audit.append(audit_entry(principal, "join-token.create", name, **detail))
            return token

        token = await self._dependencies.store.run(work)
        return json_response(join_token_view(token, secret, joining), status=201)

    async def tokens(self, request: Request, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Response:
        """List join tokens that have not expired, used ones with their agent."""
        require_role(principal_of(request.scope), Action.CHANGE, ObjectKind.AGENT)

        async def work(unit: UnitOfWork) -> Sequence[JoinToken]:
            return [one for one in await unit.catalog.all(JoinToken) if one.expires_ms > unit.now_ms]

        known = await self._dependencies.store.read(work)
        page, following = page_by_name(known, lambda one: one.name, limit=limit, cursor=cursor)
        return json_response(JoinTokenPage(items=[join_token_line(one) for one in page], next=following))

    async def revoke_token(self, request: Request, name: Name) -> Response:
        """Revoke a join token that no machine has used."""
        principal = principal_of(request.scope)
        require_role(principal, Action.CHANGE, ObjectKind.AGENT)

        async def work(unit: UnitOfWork) -> None:
            await unit.catalog.lock(JoinToken)
            token = await unit.catalog.get(JoinToken, name) if is_name(name) else None
            if token is None or token.expires_ms <= unit.now_ms:
                raise ObjectNotFound(what="join token", name=name)
            if token.used_by:
                hint = f"sokovan agent remove {token.used_by} revokes its certificate"
                raise Conflict(f"agent {token.used_by} has joined with token {name}", hint=hint)
            await unit.catalog.remove(JoinToken, name)
            await unit.audit.append(audit_entry(principal, "join-token.revoke", name))

        await self._dependencies.store.run(work)
        return Response(status_code=204)


async def _make_room(unit: UnitOfWork) -> None:
    """Remove expired tokens, and used ones beyond a limit. Raises Conflict if too many can be used."""
    usable = 0
    kept = []
    for token in await unit.catalog.all(JoinToken):
        if token.expires_ms <= unit.now_ms:
            await unit.catalog.remove(JoinToken, token.name)
        elif token.used_by:
            kept.append(token)
        else:
            usable += 1
    if usable >= JOIN_TOKENS_MAX:
        raise Conflict(f"{JOIN_TOKENS_MAX} join tokens are valid", hint="use or revoke them, or wait until they expire")
    kept.sort(key=lambda one: one.expires_ms)
    for token in kept[: max(0, len(kept) + JOIN_TOKENS_MAX - JOIN_TOKENS_KEPT_MAX)]:
        await unit.catalog.remove(JoinToken, token.name)


def _texts(labels: Mapping[str, str]) -> str:
    return " ".join(f"{name}={text}" for name, text in sorted(labels.items()))
