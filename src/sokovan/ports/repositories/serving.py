"""Repositories of deployments, replicas and rollouts. Writes are compare-and-set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.ids import DeploymentId, ReplicaId, SessionId
from sokovan.domain.lifecycle.deployment import DeploymentTrigger
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaTrigger
from sokovan.domain.lifecycle.rollout import RolloutTrigger
from sokovan.domain.records import Change, HistoryEntry
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.records import DeploymentRecord, ReplicaRecord, RevisionRecord, RolloutRecord
from sokovan.domain.serving.replica import Endpoint
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.ports.repositories.sessions import RequestKey


@dataclass(frozen=True, slots=True)
class DeploymentFilter:
    """A filter of deployments; an empty field matches all."""

    user: str = ""
    group: str = ""
    domain: str = ""
    live: bool = False


class DeploymentRepository(Protocol):
    """Deployments and their revisions."""

    async def create(
        self, spec: DeploymentSpec, revision: RevisionSpec, change: Change, *, request: RequestKey | None = None
    ) -> DeploymentRecord:
        """Store a new deployment, PENDING, with its first revision.

        It desires the least number of its replicas, or one if it scales from zero. The same
        request again returns the deployment that it created. Raises Conflict (id, or the name
        in its project), IdempotencyConflict, ObjectNotFound (scaling group).
        """

    async def requested(self, request: RequestKey) -> DeploymentRecord | None:
        """The deployment that the same request created. Raises IdempotencyConflict."""

    async def get(self, deployment_id: DeploymentId) -> DeploymentRecord:
        """One deployment. Raises ObjectNotFound."""

    async def named(self, text: str, wanted: DeploymentFilter) -> Sequence[DeploymentRecord]:
        """The matching deployments that a text refers to; at most two, if ambiguous.

        An id; else the name of deployments that have not ended; else that of the newest one
        that has ended.
        """

    async def page(
        self, wanted: DeploymentFilter, *, limit: int, after: int | None = None
    ) -> Sequence[DeploymentRecord]:
        """At most `limit` deployments before the position `after`, newest first."""

    async def live(self) -> Sequence[DeploymentRecord]:
        """Every deployment that has not ended, by id."""

    async def count(self, user: str) -> int:
        """How many deployments of a user have not ended."""

    async def move(self, deployment: DeploymentRecord, trigger: DeploymentTrigger, change: Change) -> DeploymentRecord:
        """Apply a transition.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def configure(self, deployment: DeploymentRecord, spec: DeploymentSpec, change: Change) -> DeploymentRecord:
        """Set bounds, policies, names or access. Raises StaleVersion, IllegalTransition."""

    async def scale(
        self, deployment: DeploymentRecord, replicas: int, change: Change, *, holding: bool = False
    ) -> DeploymentRecord:
        """Set the desired replicas, as the coordinator. Raises StaleVersion."""

    async def activate(self, deployment: DeploymentRecord, revision: int, change: Change) -> DeploymentRecord:
        """Set the current revision, as the coordinator. Raises StaleVersion."""

    async def add_revision(
        self, deployment: DeploymentRecord, revision: RevisionSpec, change: Change
    ) -> RevisionRecord:
        """Store the next revision; it is not active yet. Raises StaleVersion."""

    async def revisions(self, deployment_id: DeploymentId) -> Sequence[RevisionRecord]:
        """All revisions, by number."""

    async def revision(self, deployment_id: DeploymentId, number: int) -> RevisionRecord:
        """One revision. Raises ObjectNotFound."""

    async def note(self, deployment_id: DeploymentId, change: Change) -> None:
        """Record why a deployment stays in its status; repeated reasons are counted."""

    async def history(self, deployment_id: DeploymentId) -> Sequence[HistoryEntry]:
        """The history of a deployment."""

    async def events(self, deployment_id: DeploymentId, *, limit: int) -> Sequence[tuple[str, HistoryEntry]]:
        """The newest entries of the histories of a deployment and of its parts.

        Parts are replicas, rollouts and the route. In order of time, each with its subject.
        """


class ReplicaRepository(Protocol):
    """Replicas: attempts at the places of revisions."""

    async def create(self, replica_id: ReplicaId, place: ReplicaPlace, secret: str, change: Change) -> ReplicaRecord:
        """Store a new replica, PENDING. Raises Conflict (the place had this attempt)."""

    async def get(self, replica_id: ReplicaId) -> ReplicaRecord:
        """One replica. Raises ObjectNotFound."""

    async def live(self, deployment_id: DeploymentId | None = None) -> Sequence[ReplicaRecord]:
        """Replicas that have not ended, by place; of one deployment, or of all."""

    async def newest(self, deployment_id: DeploymentId, *, limit: int) -> Sequence[ReplicaRecord]:
        """The replicas whose status changed last, ended ones too; the latest first."""

    async def attempts(self, deployment_id: DeploymentId) -> Mapping[tuple[int, int], int]:
        """The last attempt at each place, by revision and ordinal."""

    async def failures(self, *, since_ms: int) -> Mapping[tuple[DeploymentId, int], Sequence[ReplicaRecord]]:
        """Replicas that failed since then, by deployment and revision, in order of time."""

    async def move(
        self,
        replica: ReplicaRecord,
        trigger: ReplicaTrigger,
        change: Change,
        *,
        session_id: SessionId | None = None,
        endpoint: Endpoint | None = None,
    ) -> ReplicaRecord:
        """Apply a transition, with the session or endpoint that it brings.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def history(self, replica_id: ReplicaId) -> Sequence[HistoryEntry]:
        """The history of a replica."""

    async def expire(self, *, before_ms: int, limit: int) -> int:
        """Remove replicas that ended before a time; how many."""


class RolloutRepository(Protocol):
    """Rollouts; a deployment has at most one that has not ended."""

    async def create(self, rollout: RolloutRecord, change: Change) -> RolloutRecord:
        """Store a new rollout, PLANNING. Raises Conflict if one is under way."""

    async def live(self, deployment_id: DeploymentId | None = None) -> Sequence[RolloutRecord]:
        """Rollouts that have not ended; of one deployment, or of all."""

    async def newest(self, deployment_id: DeploymentId, *, limit: int) -> Sequence[RolloutRecord]:
        """The last rollouts of a deployment, the latest first."""

    async def move(self, rollout: RolloutRecord, trigger: RolloutTrigger, change: Change) -> RolloutRecord:
        """Apply a transition, and store step, weight, surge and unavailable as given.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def progress(self, rollout: RolloutRecord) -> RolloutRecord:
        """Store the weight, surge and unavailable of a rollout. Raises StaleVersion."""

    async def history(self, rollout_id: str) -> Sequence[HistoryEntry]:
        """The history of a rollout."""
