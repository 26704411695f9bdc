"""Routes of machines that join: tokens, and the revocation of certificates."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import new_secret, principal_of
from sokovan.api.access.lookup import agent_named, require_role
from sokovan.api.context import ApiContext
from sokovan.api.mapping.agent_actions import join_token_of, join_token_view
from sokovan.api.mapping.fleet import agent_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.routes.parameters import Name
from sokovan.domain.cluster.agent_grant import JOIN_TOKENS_MAX, AgentGrant, JoinToken, join_digest
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import Conflict
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.domain.records import AgentRecord, Change
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import AgentView, JoinTokenBody, JoinTokenView


class JoiningRoutes:
    """Routes of join tokens and certificates of agents; administrators only."""

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
                method="DELETE", path="/api/v1/agents/{name:path}/certificate", endpoint=self.revoke, tag=tag,
                answer=AgentView, fails=(404, 409),
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
            token = join_token_of(body, name, join_digest(secret), now_ms=unit.now_ms)
            await unit.catalog.put(token)
            await unit.audit.append(audit_entry(principal, "join-token.create", name, scaling_group=group.name))
            return token

        token = await self._dependencies.store.run(work)
        return json_response(join_token_view(token, secret, joining), status=201)

    async def revoke(self, request: Request, name: Name) -> Response:
        """Revoke the certificate of an agent, close its link, and place nothing on it.

        Its kernels keep their slots until it is lost and declared gone: they may still run.
        """
        principal, parts = principal_of(request.scope), self._dependencies
        require_role(principal, Action.CHANGE, ObjectKind.AGENT)
        change = Change(principal.user, Cause.CONTROLLER, "admin-remove")

        async def work(unit: UnitOfWork) -> AgentRecord:
            record = await agent_named(unit, name)
            [grant] = await unit.catalog.find((AgentGrant, name))
            if grant is None:
                raise Conflict(
                    f"agent {name} has no certificate",
                    hint="stop it where it runs; then declare it gone when it is lost",
                )
            await unit.catalog.remove(AgentGrant, name)
            if record.info.status in {AgentStatus.ALIVE, AgentStatus.SUSPECT}:
                record = await unit.fleet.move(record, AgentTrigger.DRAIN_REQUESTED, change)
            await unit.audit.append(audit_entry(principal, "agent.remove", name))
            return record

        record = await parts.store.run(work)
        parts.disconnect(record.info.agent_id)
        await parts.hints.set(SESSIONS_HINT)
        return json_response(agent_view(record, None, connected=False, seen_as=principal.subject.role))


async def _make_room(unit: UnitOfWork) -> None:
    """Remove expired tokens. Raises Conflict if too many are valid."""
    tokens = await unit.catalog.all(JoinToken)
    for token in tokens:
        if token.expires_ms <= unit.now_ms:
            await unit.catalog.remove(JoinToken, token.name)
    if sum(token.expires_ms > unit.now_ms for token in tokens) >= JOIN_TOKENS_MAX:
        raise Conflict(f"{JOIN_TOKENS_MAX} join tokens are valid", hint="use them, or wait until they expire")
