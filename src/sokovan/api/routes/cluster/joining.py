"""Routes of agents that have joined: approval of claims, and revocation."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import agent_named, require_role
from sokovan.api.context import ApiContext
from sokovan.api.mapping.fleet import agent_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.routes.parameters import Name
from sokovan.domain.cluster.agent_claims import claims_in, without_claims
from sokovan.domain.cluster.agent_grant import AgentGrant
from sokovan.domain.errors import Conflict
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.domain.records import AgentRecord, Change
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import AgentView
from sokovan.wire.api.tenancy import ClaimApproval


class JoiningRoutes:
    """Routes of the claims and certificates of agents; administrators only."""

    def __init__(self, context: ApiContext) -> None:
        self._dependencies = context.dependencies

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag = "agents"
        return [
            ApiOperation(
                method="POST", path="/api/v1/agents/{name:path}/approval", endpoint=self.approve, tag=tag,
                body=ClaimApproval, answer=AgentView, fails=(404, 409),
            ),
            ApiOperation(
                method="DELETE", path="/api/v1/agents/{name:path}/certificate", endpoint=self.revoke, tag=tag,
                answer=AgentView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def approve(self, request: Request, name: Name) -> Response:
        """Approve the claims of an agent; it gets kernels from then on.

        The claims are given as they were shown: an agent that claims others meanwhile is not
        approved. Later enrolments may claim the same.
        """
        principal, parts = principal_of(request.scope), self._dependencies
        require_role(principal, Action.CHANGE, ObjectKind.AGENT)
        body = body_of(request, ClaimApproval)

        async def work(unit: UnitOfWork) -> AgentRecord:
            record = await agent_named(unit, name)
            claims = claims_in(record.operator_labels)
            if not claims:
                raise Conflict(
                    f"agent {name} claims nothing beyond its join token", hint="sokovan agent show has claims"
                )
            if sorted(body.claims) != sorted(claims.texts()):
                hint = f"look at them, and approve again: sokovan agent show {name}"
                raise Conflict(f"agent {name} claims {claims}, which was not approved", hint=hint)
            [grant] = await unit.catalog.find((AgentGrant, name))
            if not isinstance(grant, AgentGrant):
                raise Conflict(f"the certificate of agent {name} was revoked", hint="join it again with a new token")
            await unit.catalog.put(grant.with_claims(claims))
            agent_id, labels = record.info.agent_id, without_claims(record.operator_labels)
            await unit.catalog.set_labels(agent_id, labels, version=record.version)
            await unit.audit.append(audit_entry(principal, "agent.approve", name, claims=str(claims)))
            return await unit.fleet.get(agent_id)

        record = await parts.store.run(work)
        await parts.hints.set(SESSIONS_HINT)
        agent_id, role = record.info.agent_id, principal.subject.role
        state, connected = await parts.agents.get(agent_id), parts.gateway.connected(agent_id)
        return json_response(agent_view(record, state, connected=connected, seen_as=role))

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
