"""Stored objects of serving, each with the version it was read at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.ids import DeploymentId, ReplicaId, SessionId
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.domain.lifecycle.route import RouteStatus
from sokovan.domain.serving.budget import BudgetGrant, Month
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.replica import Endpoint
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.domain.serving.rollout import RolloutStrategy
from sokovan.domain.serving.route import RouteSpec
from sokovan.domain.serving.token import EndpointTokenSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRecord:
    """One deployment.

    `revision` is the current revision; a rollout changes it when it completes.
    `replicas_desired` is written by the scaling handler only. `holding` is set while proxies
    hold requests because no replica is desired, or soon none.
    """

    spec: DeploymentSpec
    status: DeploymentStatus
    version: int
    replicas_desired: int
    revision: int
    holding: bool = False
    created_ms: int = 0
    since_ms: int = 0
    ended_ms: int | None = None
    place: int = 0

    @property
    def deployment_id(self) -> DeploymentId:
        """Its id."""
        return self.spec.deployment_id


@dataclass(frozen=True, slots=True)
class RevisionRecord:
    """One revision of a deployment; it never changes."""

    deployment_id: DeploymentId
    number: int
    spec: RevisionSpec
    created_ms: int = 0
    created_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRecord:
    """One replica: an attempt at one place of a revision.

    `secret` is the key between proxies and its engine. `reason` says why it failed or ends.
    """

    replica_id: ReplicaId
    place: ReplicaPlace
    status: ReplicaStatus
    version: int
    secret: str
    since_ms: int
    session_id: SessionId | None = None
    endpoint: Endpoint | None = None
    reason_code: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRecord:
    """One rollout: from one revision of a deployment to another.

    `surge` and `unavailable` are those in effect. `step` is the step of a canary, since
    `step_since_ms`.
    """

    rollout_id: str
    deployment_id: DeploymentId
    revision_from: int
    revision_to: int
    strategy: RolloutStrategy
    status: RolloutStatus
    version: int
    surge: int
    unavailable: int
    step: int = 0
    weight_new: int = 0
    started_ms: int = 0
    since_ms: int = 0
    step_since_ms: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """One route, with its entry as published to proxies, and the version of that.

    The entry is empty before it was first published.
    """

    spec: RouteSpec
    status: RouteStatus
    version: int
    entry: str = ""
    table_version: int = 0
    since_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTokenRecord:
    """One endpoint token: its digest, never the token."""

    spec: EndpointTokenSpec
    digest: str
    created_ms: int
    created_by: str = ""
    revoked_ms: int | None = None
    table_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointObservation:
    """The report of one proxy on one endpoint.

    `smoke_failures` counts the smoke requests that failed in a row. `waiting` are the requests
    in the engine's own queue, those of other proxies too. Of the last `answers`, `failures`
    failed; `failing`: again and again, while another endpoint answers. `ejected`: the proxy
    sends it nothing for the time being; `ejections` counts how often.
    """

    healthy: bool | None
    outstanding: int = 0
    served: int = 0
    stalled: bool = False
    error: str = ""
    smoke_failures: int = 0
    waiting: int = 0
    answers: int = 0
    failures: int = 0
    failing: bool = False
    ejected: bool = False
    ejections: int = 0
    began_recently: tuple[int, ...] = ()
    ended_recently: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionTraffic:
    """Counters of the requests of one revision at one proxy.

    `first_byte_counts` is a histogram of the time to the first byte, as proxies report it.
    """

    served: int = 0
    failed: int = 0
    first_byte_counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDemand:
    """The report of one proxy on one route; `revisions` are counters by number."""

    in_flight: int = 0
    queued: int = 0
    arrived: int = 0
    served: int = 0
    holding: bool = False
    revisions: Mapping[str, RevisionTraffic] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRecord:
    """The last report of one proxy; `version` is that of the table it acknowledged.

    `number` counts the reports of an incarnation. `url` is that of its gateway, if it is known.
    """

    proxy_id: str
    incarnation: int
    number: int = 0
    epoch: str
    version: int
    reported_ms: int
    url: str = ""
    usage_sequence: int = 0
    endpoints: Mapping[str, EndpointObservation] = field(default_factory=dict)
    routes: Mapping[str, RouteDemand] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCount:
    """Usage of one key on one revision in one minute; its proxy numbers it."""

    sequence: int
    minute: int
    key_id: str
    deployment_id: DeploymentId
    revision: int
    requests: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_requests: int = 0
    estimated_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, estimated ones too."""
        return self.input_tokens + self.output_tokens + self.estimated_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutcome:
    """The outcome of a stored report: usage is ingested up to `usage_sequence`.

    `grants` are the leases of budgets in the `month`.
    """

    usage_sequence: int
    month: Month
    grants: tuple[BudgetGrant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingTable:
    """The routes and tokens that were published after a version of the table.

    Ended routes and revoked tokens are among them.
    """

    epoch: str
    version: int
    routes: tuple[RouteRecord, ...] = ()
    tokens: tuple[EndpointTokenRecord, ...] = ()
