"""Explanations of deployments: plan, why, revisions."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.deployments import deployment_named
from sokovan.api.access.lookup import visible_filter
from sokovan.api.context import ApiContext
from sokovan.api.mapping.deployments import deployment_spec, engine_view, replica_view, revision_spec, revision_view
from sokovan.api.mapping.explanations import why_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, cursor_of, number_of
from sokovan.api.routes.parameters import Ref
from sokovan.api.streaming.kernel_logs import KernelLogs
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import DEFAULT_QUEUE, DeploymentId
from sokovan.domain.serving.records import DeploymentRecord, ReplicaRecord
from sokovan.orchestrator.deployments.deployment_why import REPORTED_MS, DeploymentExplanation, explain_deployment
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.deployments import (
    DeploymentBody,
    DeploymentWhyView,
    EngineView,
    ReplicaWhyView,
    RevisionPage,
)

# Replicas whose sessions are explained; each is a dry run.
EXPLAINED_MAX = 5
LATEST_MAX = 50
LOG_LINES = 20
NEW = DeploymentId("new")


class DeploymentExplanationRoutes:
    """Routes that explain deployments."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._sessions = dependencies.store, dependencies.controller
        self._controller, self._logs = dependencies.deployments, KernelLogs(dependencies.gateway)

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, every = "deployments", "/api/v1/deployments"
        one = f"{every}/{{ref}}"
        return [
            ApiOperation(
                method="POST", path=f"{every}/plan", endpoint=self.plan, tag=tag,
                body=DeploymentBody, answer=EngineView, fails=(404, 409), stores_nothing=True,
            ),
            ApiOperation(
                method="GET", path=f"{one}/revisions", endpoint=self.revisions, tag=tag,
                answer=RevisionPage, fails=(404, 409),
            ),
            ApiOperation(
                method="GET", path=f"{one}/why", endpoint=self.why, tag=tag,
                answer=DeploymentWhyView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def plan(self, request: Request) -> Response:
        """Show the command that a deployment would run; nothing is stored."""
        body, caller = body_of(request, DeploymentBody), principal_of(request.scope).caller
        owner = replace(caller.owner, group=body.group or caller.owner.group)
        spec, revision = deployment_spec(body, NEW, owner, queue=DEFAULT_QUEUE), revision_spec(body.revision)
        definition = await self._controller.plan(spec, revision, caller)
        return json_response(engine_view(revision.variant, definition, image=revision.image))

    async def revisions(
        self, request: Request, ref: Ref, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None
    ) -> Response:
        """List the revisions of a deployment, newest first."""
        principal, before = principal_of(request.scope), number_of(cursor)

        async def work(unit: UnitOfWork) -> RevisionPage:
            record = await deployment_named(unit, ref, principal)
            found = [
                one
                for one in reversed(await unit.deployments.revisions(record.deployment_id))
                if before is None or one.number < before
            ]
            page = found[:limit]
            return RevisionPage(
                items=[revision_view(one) for one in page],
                next=cursor_of(page[-1].number) if len(found) > limit else None,
            )

        return json_response(await self._store.read(work))

    async def why(self, request: Request, ref: Ref) -> Response:
        """Explain why a deployment is not as desired, and which replica waits for what."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> tuple[DeploymentRecord, DeploymentExplanation]:
            record = await deployment_named(unit, ref, principal)
            live = await unit.replicas.live(record.deployment_id)
            latest = await unit.replicas.newest(record.deployment_id, limit=LATEST_MAX)
            ended = [one for one in latest if one.replica_id not in {other.replica_id for other in live}]
            proxies = await unit.proxies.live(since_ms=unit.now_ms - REPORTED_MS)
            rollout = next(iter(await unit.rollouts.newest(record.deployment_id, limit=1)), None)
            now_ms, replicas = unit.now_ms, [*live, *ended]
            return record, explain_deployment(record, replicas, proxies, now_ms=now_ms, rollout=rollout)

        record, found = await self._store.read(work)
        explained = []
        for replica, summary in found.waiting[:EXPLAINED_MAX]:
            session, scope = replica.session_id, visible_filter(principal)
            why = None if session is None else why_view(await self._sessions.why(session, scope))
            explained.append(ReplicaWhyView(replica=replica_view(replica), summary=summary, why=why))
        if found.failed is not None:
            failed = f"failed: {found.failed.reason or found.failed.reason_code}"
            log = await self._last_lines(found.failed)
            explained.append(ReplicaWhyView(replica=replica_view(found.failed), summary=failed, log=log))
        view = DeploymentWhyView(
            name=record.spec.name,
            status=record.status.value,
            health=found.health.value,
            code=found.code,
            summary=found.summary,
            replicas=explained,
        )
        return json_response(view)

    async def _last_lines(self, replica: ReplicaRecord) -> list[str]:
        """The end of the output of a replica; nothing if it is gone."""
        session_id = replica.session_id
        if session_id is None:
            return []
        try:
            session = await self._store.read(lambda unit: unit.sessions.get(session_id))
            return await self._logs.last_lines(session.kernels[0], LOG_LINES)
        except SokovanError:  # removed, or the agent is away: the reason of the replica is still shown
            return []
