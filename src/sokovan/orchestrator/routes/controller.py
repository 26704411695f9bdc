"""Entry point for the keys of routes: endpoint tokens.

Tokens are shown once; the store has a keyed digest, which proxies compare with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import DeploymentId, EndpointTokenId
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.serving.records import EndpointTokenRecord
from sokovan.domain.serving.token import TOKEN_PREFIX, EndpointTokenSpec
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.deployments.controller import may_change_deployment, write_intent
from sokovan.orchestrator.uncancellable_tasks import UncancellableTasks
from sokovan.ports.environment import IdSource
from sokovan.ports.hints import Hints
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import Store, UnitOfWork

TOKENS_MAX = 1_000


class NewToken(NamedTuple):
    """A stored token, and its secret text, which is shown once."""

    record: EndpointTokenRecord
    token: str


class RouteController:
    """Creates and revokes endpoint tokens."""

    def __init__(
        self,
        store: Store,
        *,
        hints: Hints,
        ids: IdSource,
        secrets: Callable[[], str],
        digest: Callable[[str], str],
    ) -> None:
        self._store, self._hints, self._ids = store, hints, ids
        self._secrets, self._digest = secrets, digest
        self._tasks = UncancellableTasks()

    async def create_token(self, spec: EndpointTokenSpec, caller: Caller) -> NewToken:
        """Store a new token of a deployment; its id is given here.

        Raises NotFound, Conflict.
        """
        token = TOKEN_PREFIX + self._secrets()
        wanted = replace(spec, token_id=EndpointTokenId(self._ids.new("tok")))

        async def work(unit: UnitOfWork) -> NewToken:
            await _require_own(unit, wanted.deployment_id, caller)
            if len(await unit.endpoint_tokens.of_deployment(wanted.deployment_id)) >= TOKENS_MAX:
                raise Conflict(f"the deployment has {TOKENS_MAX} tokens", hint="revoke some of them")
            who = caller.owner.user
            record = await unit.endpoint_tokens.create(wanted, self._digest(token), who)
            await unit.audit.append(_entry("token.create", wanted, caller))
            return NewToken(record, token)

        return await self._tasks.run(write_intent(self._store, self._hints, work))

    async def revoke_token(self, deployment_id: DeploymentId, token_id: str, caller: Caller) -> None:
        """Revoke a token; proxies refuse it within seconds. Raises NotFound."""

        async def work(unit: UnitOfWork) -> None:
            await _require_own(unit, deployment_id, caller)
            tokens = {one.spec.token_id: one for one in await unit.endpoint_tokens.of_deployment(deployment_id)}
            found = tokens.get(EndpointTokenId(token_id))
            if found is None:
                raise ObjectNotFound(what="token", name=token_id)
            await unit.endpoint_tokens.revoke(found.spec.token_id)
            await unit.audit.append(_entry("token.revoke", found.spec, caller))

        await self._tasks.run(write_intent(self._store, self._hints, work))


async def _require_own(unit: UnitOfWork, deployment_id: DeploymentId, caller: Caller) -> None:
    deployment = await unit.deployments.get(deployment_id)
    if not may_change_deployment(deployment.spec.owner, caller):
        raise ObjectNotFound(what="deployment", name=deployment_id)
    if deployment.status in DEPLOYMENT.terminal:
        raise Conflict(f"deployment {deployment.spec.name} has been deleted")


def _entry(action: str, spec: EndpointTokenSpec, caller: Caller) -> AuditEntry:
    detail = {"deployment": str(spec.deployment_id), "name": spec.name}
    return AuditEntry(caller.owner.user, action, spec.token_id, "done", detail=detail)
