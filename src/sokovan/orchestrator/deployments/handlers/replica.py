"""Converges the replicas of each revision to the wanted number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sokovan.domain.errors import Conflict, InvalidInput, ObjectNotFound
from sokovan.domain.ids import ReplicaId
from sokovan.domain.lifecycle.deployment import DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus, ReplicaTrigger
from sokovan.domain.owners.tenancy import User
from sokovan.domain.serving.records import DeploymentRecord, ReplicaRecord
from sokovan.domain.serving.replica import CRASH_LOOP, is_crash_loop, restart_due_ms
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.deployments.replica_moves import ReplicaMove, apply, end, observed
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests
from sokovan.orchestrator.deployments.replica_targets import (
    active,
    counted,
    free_ordinals,
    leaving,
    leaving_agents,
    replaced,
    wanted_replicas,
)
from sokovan.orchestrator.deployments.revision_secrets import RevisionSecrets
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.ports.environment import IdSource
from sokovan.ports.secrets import SecretBox, SecretsUnreadable
from sokovan.ports.storage import UnitOfWork

SCALED_DOWN, REFUSED = "not-wanted", "session-refused"
AGENT_DRAINS = "agent-draining"
# Replicas created for one deployment in one cycle.
CREATED_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDependencies:
    """The source of sessions, definitions, ids and secrets of replicas.

    `secrets` makes the key of a replica, `box` opens the secret variables of its revision.
    """

    controller: SchedulingController
    requests: ReplicaRequests
    ids: IdSource
    secrets: Callable[[], str]
    box: SecretBox


class ReplicaHandler:
    """Observes sessions; creates, enqueues and ends replicas."""

    name = "replica"

    def __init__(self, writer: ServingWriter, dependencies: ReplicaDependencies) -> None:
        self._writer, self._controller, self._requests = writer, dependencies.controller, dependencies.requests
        self._ids, self._secrets = dependencies.ids, dependencies.secrets
        self._revision_secrets = RevisionSecrets(dependencies.box)

    async def handle(self, cycle: ServingState) -> bool:
        """Converge all deployments by one step."""
        replicas = [one for some in cycle.replicas.values() for one in some]

        async def observe(replica: ReplicaRecord) -> bool:
            move = observed(cycle, replica)
            return move is not None and await apply(self._writer, replica, move)

        if await self._writer.each(self.name, replicas, observe):
            return True
        wanted = {DeploymentStatus.PROVISIONING, DeploymentStatus.RUNNING}
        deployments = [one for one in cycle.deployments.values() if one.status in wanted]
        return await self._writer.each(self.name, deployments, lambda one: self._converge(cycle, one))

    def clear(self) -> None:
        """Nothing is kept."""

    async def _converge(self, state: ServingState, deployment: DeploymentRecord) -> bool:
        moved = False
        wanted = wanted_replicas(state, deployment)
        present = {one.place.revision for one in state.replicas_of(deployment.deployment_id)}
        for revision in sorted(present | set(wanted)):
            replicas, number = state.replicas_of(deployment.deployment_id, revision), wanted.get(revision, 0)
            moving = leaving_agents(state, replicas)
            staying = [one for one in counted(replicas) if one not in moving]
            for replica in replaced(state, moving, staying, number):
                moved |= await end(self._writer, replica, AGENT_DRAINS, "its agent drains, and others serve instead")
            missing = number - len(staying)
            for replica in leaving(state, staying, -missing):
                moved |= await end(self._writer, replica, SCALED_DOWN, f"{number} replicas are wanted")
            if missing > 0:
                moved |= await self._create(state, deployment, revision, missing)
        for replica in state.replicas_of(deployment.deployment_id):
            if replica.status is ReplicaStatus.PENDING and not moved:
                moved |= await self._enqueue(state, deployment, replica)
        return moved or await self._ready(state, deployment)

    async def _create(self, state: ServingState, deployment: DeploymentRecord, revision: int, missing: int) -> bool:
        """Store new replicas, unless earlier ones failed too recently or too often."""
        failed = [one.since_ms for one in state.failures.get((deployment.deployment_id, revision), ())]
        replicas = state.replicas_of(deployment.deployment_id, revision)
        serving = sum(one.status is ReplicaStatus.ACTIVE for one in replicas)
        if is_crash_loop(failed, state.now_ms, serving=serving):
            await self._note_crash_loop(state, deployment, revision)
            return False
        if state.now_ms < restart_due_ms(failed, serving=serving):
            return False
        change = self._writer.change()

        async def work(unit: UnitOfWork) -> bool:
            attempts = await unit.replicas.attempts(deployment.deployment_id)
            for ordinal in free_ordinals(replicas, min(missing, CREATED_MAX)):
                attempt = attempts.get((revision, ordinal), 0) + 1
                place = ReplicaPlace(deployment.deployment_id, revision, ordinal, attempt)
                await unit.replicas.create(ReplicaId(self._ids.new("rep")), place, self._secrets(), change)
            return True

        return await self._writer.run(work)

    async def _note_crash_loop(self, state: ServingState, deployment: DeploymentRecord, revision: int) -> None:
        failed = state.failures[deployment.deployment_id, revision]
        detail = (
            f"{len(failed)} replicas of revision {revision} failed within 10 minutes; the last: {failed[-1].reason}"
        )
        change = self._writer.change(CRASH_LOOP, detail)
        await self._writer.run(lambda unit: unit.deployments.note(deployment.deployment_id, change))

    async def _enqueue(self, state: ServingState, deployment: DeploymentRecord, replica: ReplicaRecord) -> bool:
        """Submit the session of a replica; its key makes a repetition harmless."""
        spec, revision = deployment.spec, state.revision_of(replica).spec
        try:
            caller = await self._writer.read(lambda unit: _caller(unit, deployment))
            request = self._requests.request(spec, revision, replica.place, replica.secret)
            given = replace(request, secrets=self._revision_secrets.opened(revision, spec.owner))
            session = await self._controller.enqueue(given, caller, key=replica.place.key)
        except (InvalidInput, Conflict, ObjectNotFound, SecretsUnreadable) as error:
            move = ReplicaMove(ReplicaTrigger.REFUSED, REFUSED, f"{error.message} [{error.code}]")
            return await apply(self._writer, replica, move)
        change = self._writer.change("enqueued", session.spec.name)

        async def work(unit: UnitOfWork) -> bool:
            await unit.replicas.move(replica, ReplicaTrigger.ENQUEUED, change, session_id=session.session_id)
            return True

        return await self._writer.run(work)

    async def _ready(self, state: ServingState, deployment: DeploymentRecord) -> bool:
        """PROVISIONING to RUNNING, once every desired replica serves."""
        serving = len(active(state.replicas_of(deployment.deployment_id)))
        if deployment.status is not DeploymentStatus.PROVISIONING or serving < deployment.replicas_desired:
            return False
        change = self._writer.change("ready", f"{serving} replicas serve")

        async def work(unit: UnitOfWork) -> bool:
            await unit.deployments.move(deployment, DeploymentTrigger.REPLICAS_HEALTHY, change)
            return True

        return await self._writer.run(work)


async def _caller(unit: UnitOfWork, deployment: DeploymentRecord) -> Caller:
    """The owner as the caller, with the rights that it has now. Raises ObjectNotFound."""
    owner = deployment.spec.owner
    user = await unit.catalog.get(User, owner.user)
    return Caller(owner=owner, role=user.role, groups=user.groups)
