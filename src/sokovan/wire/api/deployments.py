"""JSON types of deployments: requests and views.

Times are RFC 3339 in UTC. Durations are seconds, or `90s`, `30m` in a request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sokovan.wire.api.bodies import Amount, StrictBody
from sokovan.wire.api.explanations import WhyView
from sokovan.wire.api.sessions import HistoryLine, MountBody

DeploymentAccess = Literal["private", "project", "public"]
RoutingPolicy = Literal["least-load", "prefix", "sticky", "round-robin"]
ScalingMetric = Literal["manual", "concurrency", "qps", "queue", "ttft_p95"]
RolloutStrategy = Literal["rolling", "blue-green", "canary"]
WhenFull = Literal["replace", "wait", "fail"]
AppliedOutcome = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeBody(StrictBody):
    """How a replica is checked: a GET of `path`; without one, a connection.

    With `smoke` it also answers a request for one token before it serves, if its engine has
    a path for that.
    """

    path: str = ""
    warming_interval_ms: int = 1_000
    interval_ms: int = 5_000
    timeout_ms: int = 5_000
    smoke: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimitsBody(StrictBody):
    """How many requests wait for a deployment, and how long, in seconds."""

    queued_max: int = 1_000
    queue_wait_s: int = 30
    cold_wait_s: int = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionBody(StrictBody):
    """The engine, the model and the resources of each replica.

    `command` is for the engine `custom`; `arguments` are appended to the command of any
    engine. `size` is the number of kernels of a replica. `concurrency_max` is the number of
    requests that a replica takes at once; by default that of its engine. `secrets` are
    variables whose values are stored encrypted and never shown: a view has null for each, and
    null in an update keeps the value that the current revision has.
    """

    engine: str
    model: str = ""
    command: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    image: str | None = None
    resources: dict[str, Amount] = field(default_factory=dict)
    size: int = 1
    mounts: list[MountBody] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str | None] = field(default_factory=dict, repr=False)
    probe: ProbeBody | None = None
    startup_timeout: int | str = 1_800
    drain_timeout: int | str = 300
    concurrency_max: int | None = None
    limits: RequestLimitsBody = field(default_factory=RequestLimitsBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingBody(StrictBody):
    """How the number of replicas follows demand; `target` is per replica."""

    metric: ScalingMetric = "manual"
    target: int | None = None
    stable_s: int = 60
    panic_s: int = 6
    panic_hold_s: int = 60
    down_s: int = 300
    idle_s: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutBody(StrictBody):
    """How updates proceed.

    `steps` are the percentages of a canary; with a `share` it stays at that one until it is
    promoted. `promote_after_s` promotes without a request. With `analysis` a revision with more
    failures or later first bytes than the old one is rolled back.
    """

    strategy: RolloutStrategy = "rolling"
    surge: int = 1
    unavailable: int = 0
    when_full: WhenFull = "replace"
    steps: list[int] = field(default_factory=lambda: [5, 25, 50, 100])
    hold_s: int = 60
    promote_after_s: int | None = None
    keep_s: int = 600
    analysis: bool = True
    share: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentBody(StrictBody):
    """A request for a deployment.

    It answers to `model_names`, by default to its own name. The number of replicas is between
    the two bounds; without a scaling metric it is the lower one. `sticky_by` is what the routing
    `sticky` knows a session by: `header:NAME` or `cookie:NAME`.
    """

    name: str
    revision: RevisionBody
    model_names: list[str] = field(default_factory=list)
    access: DeploymentAccess = "private"
    replicas_min: int = 1
    replicas_max: int | None = None
    scaling: ScalingBody = field(default_factory=ScalingBody)
    rollout: RolloutBody = field(default_factory=RolloutBody)
    routing: RoutingPolicy | None = None
    sticky_by: str = "header:x-session-id"
    scaling_group: str | None = None
    queue: str | None = None
    group: str | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleBody(StrictBody):
    """New bounds of the number of replicas, and how it follows demand, if given."""

    replicas_min: int
    replicas_max: int | None = None
    scaling: ScalingBody | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBody(StrictBody):
    """A new revision, and how to change to it; without that, as the deployment says."""

    revision: RevisionBody
    rollout: RolloutBody | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackBody(StrictBody):
    """The revision to return to; by default the one before the current one."""

    revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTokenBody(StrictBody):
    """A request for a token of a deployment; None is no limit, no models are all."""

    name: str = ""
    models: list[str] = field(default_factory=list)
    expires_at: str | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    tokens_per_month: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage(StrictBody):
    """A message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatBody(StrictBody):
    """A question to a model of a deployment: the messages so far.

    By default to its first model.
    """

    messages: list[ChatMessage]
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPart:
    """A part of an answer; the last one has `end`."""

    text: str = ""
    end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionView:
    """One revision; `number` counts from 1."""

    number: int
    revision: RevisionBody
    created_at: str
    created_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionPage:
    """Revisions of a deployment, newest first."""

    items: list[RevisionView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyView:
    """How long answers took over the last `window_s` seconds, as gateways measured it.

    In milliseconds, for half of them and for 95 of 100: from the arrival of a request, with the
    time that it waited, to the first part of its answer, the first token of one that is
    streamed; and until the answer was whole. Errors are left out. The figures come from
    histograms, so they are near the true ones.
    """

    window_s: int
    answers: int
    first_p50_ms: int
    first_p95_ms: int
    whole_answers: int
    whole_p50_ms: int
    whole_p95_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica: an attempt at one place of a revision, and its session.

    `latency` is None if it has answered nothing lately.
    """

    id: str
    revision: int
    ordinal: int
    attempt: int
    status: str
    since: str
    session: str | None = None
    agent: str | None = None
    port: int | None = None
    reason_code: str = ""
    reason: str = ""
    latency: LatencyView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutView:
    """A change from one revision to another; `weight_new` is in percent."""

    id: str
    revision_from: int
    revision_to: int
    strategy: str
    status: str
    started_at: str
    since: str
    step: int = 0
    weight_new: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentView:
    """One deployment, with its live replicas and its rollout, if one is under way.

    `url` is the gateway's, for clients of the OpenAI API; empty where none is known.
    `latency` is that of its live replicas together, None if there was no answer lately.
    """

    id: str
    name: str
    models: list[str]
    user: str
    group: str
    access: str
    status: str
    health: str
    replicas_min: int
    replicas_max: int
    replicas_desired: int
    replicas_active: int
    revision: RevisionView
    scaling: ScalingBody
    rollout_policy: RolloutBody
    created_at: str
    since: str
    queue: str
    scaling_group: str | None = None
    routing: str = ""
    replicas: list[ReplicaView] = field(default_factory=list)
    rollout: RolloutView | None = None
    url: str = ""
    latency: LatencyView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedDeploymentView:
    """A deployment that was applied, and the effect of that."""

    outcome: AppliedOutcome
    deployment: DeploymentView


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPage:
    """Deployments, newest first."""

    items: list[DeploymentView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentEventsView:
    """The last events of a deployment, its replicas, rollouts and route, by time."""

    deployment: str
    lines: list[HistoryLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTokenView:
    """One token of a deployment, without its secret.

    `tokens_used` counts tokens of models since the begin of the month, in UTC, as far as
    proxies have reported them; a budget is whole again at `renewed_at`.
    """

    id: str
    deployment: str
    name: str
    models: list[str]
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    tokens_per_month: int | None = None
    tokens_used: int = 0
    renewed_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEndpointTokenView:
    """A new token; its secret is only ever in this response."""

    id: str
    deployment: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTokenPage:
    """Tokens of a deployment, newest first."""

    items: list[EndpointTokenView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWhyView:
    """Why one replica does not serve; `why` is that of its session, if it waits.

    `log` has the last lines of the output of one that failed, if its agent still has it.
    """

    replica: ReplicaView
    summary: str
    why: WhyView | None = None
    log: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentWhyView:
    """Why a deployment is not as desired: one sentence, and each replica that waits."""

    name: str
    status: str
    health: str
    code: str
    summary: str
    replicas: list[ReplicaWhyView] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """The command and probe that an engine's generator makes for a revision.

    `{port}` stands for the port that is leased at the start. The secret of a replica is not
    shown. `model` is the engine's own name of the model. A request for one token goes to
    `smoke_path` before a replica serves; empty: none. The engine's load is read at
    `metrics_path`; empty: it is not known.
    """

    engine: str
    command: list[str]
    environment: dict[str, str]
    probe: ProbeBody
    model: str
    image: str
    concurrency_max: int
    routing: str
    checks_secret: bool
    smoke_path: str = ""
    metrics_path: str = ""
