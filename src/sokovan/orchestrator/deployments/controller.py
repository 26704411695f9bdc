"""Entry point for deployments: create, apply, update, roll back, scale, delete.

The controller only records intent; the coordinators, woken by hints, carry it out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from sokovan.domain.errors import Conflict, ObjectNotFound, StaleVersion
from sokovan.domain.ids import DeploymentId
from sokovan.domain.lifecycle.deployment import DEPLOYMENT, DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.lifecycle.rollout import RolloutStatus, RolloutTrigger
from sokovan.domain.owners.access import AccessSubject, Action, ObjectKind, Ownership, may
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.plain_values import to_plain
from sokovan.domain.records import Change
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.engine import EngineDefinition
from sokovan.domain.serving.records import DeploymentRecord, RolloutRecord
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.domain.serving.rollout import RolloutPolicy, RolloutStrategy
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.coordinator import DEPLOYMENTS_HINT, ROUTES_HINT
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests
from sokovan.orchestrator.deployments.revision_secrets import GivenSecrets, RevisionSecrets
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.user_changes import change_by
from sokovan.orchestrator.uncancellable_tasks import UncancellableTasks
from sokovan.ports.environment import IdSource
from sokovan.ports.hints import Hints
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.repositories.serving import DeploymentFilter
from sokovan.ports.repositories.sessions import RequestKey
from sokovan.ports.secrets import SecretBox
from sokovan.ports.storage import Store, UnitOfWork

R = TypeVar("R")

# Each deployment costs time in every cycle of its coordinators.
DEPLOYMENTS_PER_USER_MAX = 200
REVISIONS_MAX = 1_000
# Coordinators change deployments as well; a request is tried again this often.
TRIES = 5
_PROMOTABLE = frozenset({RolloutStatus.PROGRESSING, RolloutStatus.AWAITING_PROMOTION})


class CreatedDeployment(NamedTuple):
    """A deployment, and whether this request created it or an earlier equal one did."""

    deployment: DeploymentRecord
    fresh: bool


class Applied(StrEnum):
    """The effect of applying a deployment."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class AppliedDeployment(NamedTuple):
    """A deployment as it was applied, and the effect of that."""

    deployment: DeploymentRecord
    outcome: Applied


class DeploymentController:
    """Validates and stores what users want of deployments."""

    def __init__(
        self,
        store: Store,
        sessions: SchedulingController,
        requests: ReplicaRequests,
        *,
        hints: Hints,
        ids: IdSource,
        secrets: SecretBox,
    ) -> None:
        self._store, self._sessions, self._requests = store, sessions, requests
        self._hints, self._ids, self._secrets = hints, ids, RevisionSecrets(secrets)
        self._tasks = UncancellableTasks()

    async def create(
        self,
        spec: DeploymentSpec,
        revision: RevisionSpec,
        caller: Caller,
        *,
        key: str | None = None,
        secrets: GivenSecrets | None = None,
    ) -> CreatedDeployment:
        """Store a deployment, PENDING; its id is given here.

        `secrets` are the values of the revision's secret variables. The same request with the
        same key returns the deployment it created before. Raises InvalidRequest, InvalidSpec,
        UnknownEngine, Conflict, IdempotencyConflict.
        """
        wanted = replace(spec, deployment_id=DeploymentId(self._ids.new("d")))
        values = self._secrets.values(secrets or {}, spec.owner)
        await self._check(wanted, revision, caller, values)
        once = None if key is None else RequestKey(caller.owner.access_key, key, self._digest(spec, revision, values))
        revision = self._secrets.sealed(revision, values, spec.owner)
        change = change_by(caller, "created", "")

        async def work(unit: UnitOfWork) -> CreatedDeployment:
            earlier = None if once is None else await unit.deployments.requested(once)
            if earlier is not None:
                return CreatedDeployment(earlier, fresh=False)
            return CreatedDeployment(await _create(unit, wanted, revision, change, request=once), fresh=True)

        return await self._write(work)

    async def apply(
        self, spec: DeploymentSpec, revision: RevisionSpec, caller: Caller, *, secrets: GivenSecrets | None = None
    ) -> AppliedDeployment:
        """Create the deployment of this name, or make it what is given. Idempotent.

        Another revision than the one that it has, or changes to, begins a rollout; so do other
        values of secrets. Raises InvalidRequest, InvalidSpec, UnknownEngine, SecretsUnreadable,
        Conflict (being deleted, a rollout is under way).
        """
        wanted = replace(spec, deployment_id=DeploymentId(self._ids.new("d")))
        owner, intended = await self._store.read(lambda unit: _applied_over(unit, spec, caller))
        values = self._secrets.values(secrets or {}, owner, intended)
        await self._check(wanted, revision, caller, values)
        sealed = self._secrets.sealed(revision, values, owner)
        change = change_by(caller, "applied", "")

        async def work(unit: UnitOfWork) -> AppliedDeployment:
            found = await _own_named(unit, spec, caller)
            if found is None:
                return AppliedDeployment(await _create(unit, wanted, sealed, change), Applied.CREATED)
            deployment = await _living(unit, found.deployment_id, caller)
            before = deployment.spec
            # The weights of replicas and the shares of canaries are set by hand, and not part of what is applied.
            given = replace(
                spec,
                deployment_id=before.deployment_id,
                owner=before.owner,
                weights=before.weights,
                shares=before.shares,
            )
            configured = given != before
            if configured:
                await unit.audit.append(_entry("deployment.configure", deployment, change))
                deployment = await unit.deployments.configure(deployment, given, change)
            now = await _intended_revision(unit, deployment)
            if replace(now, sealed=revision.sealed) != revision or self._secrets.opened(now, owner) != values:
                await self._add_revision(unit, deployment, sealed, change)
            elif not configured:
                return AppliedDeployment(deployment, Applied.UNCHANGED)
            return AppliedDeployment(await unit.deployments.get(deployment.deployment_id), Applied.UPDATED)

        return await self._write(work)

    async def plan(self, spec: DeploymentSpec, revision: RevisionSpec, caller: Caller) -> EngineDefinition:
        """How the replicas of a deployment would be started; stores nothing.

        Raises InvalidRequest, InvalidSpec, UnknownEngine.
        """
        await self._check(spec, revision, caller, dict.fromkeys(revision.secrets, ""))
        return self._requests.definition(spec, revision)

    async def update(
        self,
        deployment_id: DeploymentId,
        revision: RevisionSpec,
        caller: Caller,
        *,
        rollout: RolloutPolicy | None = None,
        secrets: GivenSecrets | None = None,
    ) -> RolloutRecord:
        """Add a revision, and begin the rollout to it.

        With `rollout`, that is the policy from now on. A secret without a value keeps that of
        the current revision. Raises NotFound, Conflict (a rollout is under way),
        InvalidRequest, UnknownEngine, SecretsUnreadable.
        """
        found, before = await self._store.read(lambda unit: _current(unit, deployment_id, caller))
        values = self._secrets.values(secrets or {}, found.spec.owner, before)
        await self._check(found.spec, revision, caller, values)
        revision = self._secrets.sealed(revision, values, found.spec.owner)
        change = change_by(caller, "updated", "")

        async def work(unit: UnitOfWork) -> RolloutRecord:
            deployment = await _living(unit, deployment_id, caller)
            if rollout is not None and rollout != deployment.spec.rollout:
                spec = replace(deployment.spec, rollout=rollout)
                deployment = await unit.deployments.configure(deployment, spec, change)
            return await self._add_revision(unit, deployment, revision, change)

        return await self._write(work)

    async def roll_back(self, deployment_id: DeploymentId, caller: Caller, *, to: int | None = None) -> RolloutRecord:
        """Abort the rollout under way; without one, return to an earlier revision.

        Raises NotFound, Conflict if there is no earlier revision.
        """
        change = change_by(caller, "rolled-back", "on request")

        async def work(unit: UnitOfWork) -> RolloutRecord:
            deployment = await _living(unit, deployment_id, caller)
            live = await unit.rollouts.live(deployment_id)
            if live and to is None:
                return await self._abort(unit, deployment, live[0], change)
            number = deployment.revision - 1 if to is None else to
            if number < 1 or number == deployment.revision:
                problem = f"revision {number} is its own" if number else f"revision {deployment.revision} is its first"
                raise Conflict(
                    f"deployment {deployment.spec.name} has no revision to return to: {problem}",
                    hint="see `sokovan deployment history NAME`",
                )
            await unit.deployments.revision(deployment_id, number)
            return await self._roll_out(unit, deployment, number, change)

        return await self._write(work)

    async def promote(self, deployment_id: DeploymentId, caller: Caller) -> RolloutRecord:
        """Promote the new revision. Raises NotFound, Conflict if no rollout waits for it."""
        change = change_by(caller, "promoted", "on request")

        async def work(unit: UnitOfWork) -> RolloutRecord:
            deployment = await _living(unit, deployment_id, caller)
            live = await unit.rollouts.live(deployment_id)
            if not live:
                raise Conflict(f"deployment {deployment.spec.name} has no rollout to promote")
            if live[0].status not in _PROMOTABLE:
                raise Conflict(
                    f"the rollout of deployment {deployment.spec.name} is {live[0].status}, and cannot be promoted now",
                    hint="one that is planned can be promoted a moment later; see `sokovan deployment show NAME`",
                )
            await unit.audit.append(_entry("deployment.promote", deployment, change))
            return await unit.rollouts.move(live[0], RolloutTrigger.PROMOTED, change)

        return await self._write(work)

    async def configure(
        self, deployment_id: DeploymentId, changes: Mapping[str, Any], caller: Caller
    ) -> DeploymentRecord:
        """Set bounds, policies, names or access, by field of the spec.

        Raises NotFound, InvalidSpec, Conflict.
        """

        async def work(unit: UnitOfWork) -> DeploymentRecord:
            deployment = await _living(unit, deployment_id, caller)
            spec = replace(deployment.spec, **changes)
            if spec == deployment.spec:
                return deployment
            detail = f"{spec.replicas_min} to {spec.replicas_max} replicas"
            if spec.shares != deployment.spec.shares:
                await _require_canary(unit, deployment, spec.shares)
                parts = [f"{percent} % of requests to revision {number}" for number, percent in spec.shares.items()]
                detail = ", ".join(parts) or "the canary follows its steps"
            change = change_by(caller, "configured", detail)
            await unit.audit.append(_entry("deployment.configure", deployment, change))
            return await unit.deployments.configure(deployment, spec, change)

        return await self._write(work)

    async def delete(self, deployment_id: DeploymentId, caller: Caller) -> DeploymentRecord:
        """Let a deployment end. Idempotent. Raises NotFound."""
        change = change_by(caller, "deleted", "on request")

        async def work(unit: UnitOfWork) -> DeploymentRecord:
            deployment = await _changeable(unit, deployment_id, caller)
            if deployment.status is DeploymentStatus.DESTROYING or deployment.status in DEPLOYMENT.terminal:
                return deployment
            await unit.audit.append(_entry("deployment.delete", deployment, change))
            return await unit.deployments.move(deployment, DeploymentTrigger.DELETE_REQUESTED, change)

        return await self._write(work)

    async def _check(
        self, spec: DeploymentSpec, revision: RevisionSpec, caller: Caller, secrets: Mapping[str, str]
    ) -> None:
        """Refuse what no replica could be made of. Raises InvalidRequest, InvalidInput."""
        request = self._requests.request(spec, revision, ReplicaPlace(spec.deployment_id, 1, 0, 1), "")
        await self._sessions.validate(replace(request, name="", secrets=secrets), caller)

    def _digest(self, spec: DeploymentSpec, revision: RevisionSpec, secrets: Mapping[str, str]) -> str:
        """Equal for equal requests."""
        nameless = replace(spec, deployment_id=DeploymentId("new"))
        parts = [to_plain(nameless), to_plain(revision), *([dict(secrets)] if secrets else [])]
        text = json.dumps(parts, sort_keys=True)
        return self._secrets.digest(text) if secrets else hashlib.sha256(text.encode()).hexdigest()

    async def _add_revision(
        self, unit: UnitOfWork, deployment: DeploymentRecord, revision: RevisionSpec, change: Change
    ) -> RolloutRecord:
        if len(await unit.deployments.revisions(deployment.deployment_id)) >= REVISIONS_MAX:
            raise Conflict(f"the deployment has {REVISIONS_MAX} revisions", hint="create it anew")
        added = await unit.deployments.add_revision(deployment, revision, change)
        return await self._roll_out(unit, deployment, added.number, change)

    async def _roll_out(
        self, unit: UnitOfWork, deployment: DeploymentRecord, revision: int, change: Change
    ) -> RolloutRecord:
        policy = deployment.spec.rollout
        if deployment.spec.shares:
            # Those of an earlier canary to the same revision do not count for this one.
            current = await unit.deployments.get(deployment.deployment_id)
            deployment = await unit.deployments.configure(current, replace(current.spec, shares={}), change)
        rollout = RolloutRecord(
            rollout_id=self._ids.new("ro"),
            deployment_id=deployment.deployment_id,
            revision_from=deployment.revision,
            revision_to=revision,
            strategy=policy.strategy,
            status=RolloutStatus.PLANNING,
            version=1,
            surge=policy.surge,
            unavailable=policy.unavailable,
        )
        await unit.audit.append(_entry("deployment.update", deployment, change))
        return await unit.rollouts.create(rollout, change)

    async def _abort(
        self, unit: UnitOfWork, deployment: DeploymentRecord, rollout: RolloutRecord, change: Change
    ) -> RolloutRecord:
        if rollout.status is RolloutStatus.ROLLING_BACK:
            return rollout
        await unit.audit.append(_entry("deployment.abort", deployment, change))
        return await unit.rollouts.move(rollout, RolloutTrigger.ABORTED, change)

    async def _write(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        """Run a transaction and set the hints, although the caller may leave meanwhile."""
        return await self._tasks.run(write_intent(self._store, self._hints, work))


async def write_intent(store: Store, hints: Hints, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
    """Run a transaction, again if a coordinator was faster, and wake the coordinators."""
    for tries in range(1, TRIES + 1):
        try:
            result = await store.run(work)
        except StaleVersion:
            if tries == TRIES:
                raise
            continue
        for hint in (DEPLOYMENTS_HINT, ROUTES_HINT):
            await hints.set(hint)
        return result
    raise Conflict("the deployment changes too often")


async def _create(
    unit: UnitOfWork, spec: DeploymentSpec, revision: RevisionSpec, change: Change, *, request: RequestKey | None = None
) -> DeploymentRecord:
    """Store a deployment. Raises Conflict."""
    user = spec.owner.user
    if await unit.deployments.count(user) >= DEPLOYMENTS_PER_USER_MAX:
        raise Conflict(f"user {user} has {DEPLOYMENTS_PER_USER_MAX} deployments", hint="delete some of them")
    created = await unit.deployments.create(spec, revision, change, request=request)
    await unit.audit.append(_entry("deployment.create", created, change))
    return created


async def _own_named(unit: UnitOfWork, spec: DeploymentSpec, caller: Caller) -> DeploymentRecord | None:
    """The live deployment of this name in its project, if the caller may change it."""
    wanted = DeploymentFilter(group=spec.owner.group, live=True)
    found = await unit.deployments.named(spec.name, wanted)
    same = (one for one in found if one.spec.name == spec.name and may_change_deployment(one.spec.owner, caller))
    return next(same, None)


async def _applied_over(unit: UnitOfWork, spec: DeploymentSpec, caller: Caller) -> tuple[Owner, RevisionSpec | None]:
    """The owner of the deployment of this name, and the revision that it should have."""
    found = await _own_named(unit, spec, caller)
    return (spec.owner, None) if found is None else (found.spec.owner, await _intended_revision(unit, found))


async def _intended_revision(unit: UnitOfWork, deployment: DeploymentRecord) -> RevisionSpec:
    """The revision that a deployment has, or changes to."""
    live = await unit.rollouts.live(deployment.deployment_id)
    forward = live and live[0].status is not RolloutStatus.ROLLING_BACK
    number = live[0].revision_to if forward else deployment.revision
    return (await unit.deployments.revision(deployment.deployment_id, number)).spec


def may_change_deployment(owner: Owner, caller: Caller) -> bool:
    """Whether the caller may change the deployments of an owner."""
    user = caller.owner
    subject = AccessSubject(user=user.user, domain=user.domain, role=caller.role, groups=caller.groups)
    ownership = Ownership(domain=owner.domain, user=owner.user, group=owner.group)
    return may(subject, Action.CHANGE, ObjectKind.DEPLOYMENT, ownership)


async def _require_canary(unit: UnitOfWork, deployment: DeploymentRecord, shares: Mapping[str, int]) -> None:
    """Refuse shares of revisions to which no canary is under way. Raises Conflict."""
    live = await unit.rollouts.live(deployment.deployment_id)
    forward = [one for one in live if one.status in {RolloutStatus.PLANNING, RolloutStatus.PROGRESSING}]
    canaries = {str(one.revision_to) for one in forward if one.strategy is RolloutStrategy.CANARY}
    other = next((number for number in shares if number not in canaries), None)
    if other is not None:
        name = deployment.spec.name
        raise Conflict(f"no canary of {name} goes to revision {other}", hint="see `sokovan deployment show NAME`")


async def _changeable(unit: UnitOfWork, deployment_id: DeploymentId, caller: Caller) -> DeploymentRecord:
    """A deployment that the caller may change; others count as not found."""
    deployment = await unit.deployments.get(deployment_id)
    if not may_change_deployment(deployment.spec.owner, caller):
        raise ObjectNotFound(what="deployment", name=deployment_id)
    return deployment


async def _living(unit: UnitOfWork, deployment_id: DeploymentId, caller: Caller) -> DeploymentRecord:
    """Like `_changeable`; raises Conflict if it is being deleted."""
    deployment = await _changeable(unit, deployment_id, caller)
    if deployment.status is DeploymentStatus.DESTROYING or deployment.status in DEPLOYMENT.terminal:
        raise Conflict(f"deployment {deployment.spec.name} is being deleted", hint="create it anew under this name")
    return deployment


async def _current(
    unit: UnitOfWork, deployment_id: DeploymentId, caller: Caller
) -> tuple[DeploymentRecord, RevisionSpec]:
    """Like `_changeable`, with its active revision."""
    deployment = await _changeable(unit, deployment_id, caller)
    return deployment, (await unit.deployments.revision(deployment_id, deployment.revision)).spec


def _entry(action: str, deployment: DeploymentRecord, change: Change) -> AuditEntry:
    detail = {"name": deployment.spec.name, "code": change.code, "reason": change.detail}
    return AuditEntry(change.who, action, deployment.deployment_id, "done", detail=detail)
