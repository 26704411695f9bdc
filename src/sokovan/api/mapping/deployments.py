"""Converts deployments, revisions, replicas and tokens from and to wire types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import cast

from sokovan.api.mapping.times import read_duration, read_time, time_text, time_text_or_none
from sokovan.domain.checks import require_int
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import DeploymentId, EndpointTokenId, QueueName, ScalingGroupName
from sokovan.domain.lifecycle.replica import ReplicaStatus
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.serving.budget import Month
from sokovan.domain.serving.deployment import DeploymentAccess, DeploymentSpec, deployment_health
from sokovan.domain.serving.engine import EngineDefinition, Probe, RoutingPolicy
from sokovan.domain.serving.records import (
    DeploymentRecord,
    EndpointTokenRecord,
    ReplicaRecord,
    RevisionRecord,
    RolloutRecord,
)
from sokovan.domain.serving.revision import RequestLimits, RevisionSpec
from sokovan.domain.serving.rollout import RolloutPolicy, RolloutStrategy, WhenFull
from sokovan.domain.serving.scaling import ScalingMetric, ScalingPolicy
from sokovan.domain.serving.token import EndpointTokenSpec, TokenLimits
from sokovan.domain.session import Mount
from sokovan.wire.api.deployments import (
    ChatBody,
    DeploymentBody,
    DeploymentView,
    EndpointTokenBody,
    EndpointTokenView,
    EngineView,
    ProbeBody,
    ReplicaView,
    RequestLimitsBody,
    RevisionBody,
    RevisionView,
    RolloutBody,
    RolloutView,
    ScalingBody,
)
from sokovan.wire.api.deployments import ScalingMetric as ScalingMetricName
from sokovan.wire.api.sessions import MountBody

# Bounds of a chat through the API.
MESSAGES_MAX = 200
ANSWER_MAX = 100_000
TEMPERATURE_MAX = 2
# Replicas in the view of a deployment.
REPLICAS_SHOWN = 100
_LIMITS = tuple(one.name for one in fields(TokenLimits))
_WINDOWS = ("stable_s", "panic_s", "panic_hold_s", "down_s", "idle_s")
_PROBE = tuple(one.name for one in fields(Probe))
_REQUESTS = tuple(one.name for one in fields(RequestLimits))
_ROLLOUT = ("surge", "unavailable", "hold_s", "promote_after_s", "keep_s", "analysis", "share")


def deployment_spec(
    body: DeploymentBody, deployment_id: DeploymentId, owner: Owner, *, queue: QueueName
) -> DeploymentSpec:
    """The deployment of a body; `queue` is the default. Raises InvalidInput."""
    return DeploymentSpec(
        deployment_id=deployment_id,
        name=body.name,
        model_names=tuple(dict.fromkeys(body.model_names)),
        owner=owner,
        access=DeploymentAccess(body.access),
        replicas_min=body.replicas_min,
        replicas_max=body.replicas_min if body.replicas_max is None else body.replicas_max,
        scaling=scaling_policy(body.scaling),
        rollout=rollout_policy(body.rollout),
        routing=None if body.routing is None else RoutingPolicy(body.routing),
        sticky_by=body.sticky_by,
        scaling_group=None if body.scaling_group is None else ScalingGroupName(body.scaling_group),
        queue=queue if body.queue is None else QueueName(body.queue),
        priority=body.priority,
    )


def revision_spec(body: RevisionBody) -> RevisionSpec:
    """The revision of a body. Raises InvalidInput."""
    return RevisionSpec(
        variant=body.engine,
        model=body.model,
        command=tuple(body.command),
        arguments=tuple(body.arguments),
        image=body.image or "",
        resources={name: str(amount) for name, amount in body.resources.items()},
        kernels=body.size,
        mounts=tuple(Mount(one.source, one.target, one.read_only) for one in body.mounts),
        environment=dict(body.environment),
        secrets=tuple(sorted(body.secrets)),
        probe=None if body.probe is None else Probe(**{name: getattr(body.probe, name) for name in _PROBE}),
        startup_timeout_s=_seconds(body.startup_timeout, "startup_timeout"),
        drain_timeout_s=_seconds(body.drain_timeout, "drain_timeout", least=0),
        concurrency_max=body.concurrency_max,
        limits=RequestLimits(**{name: getattr(body.limits, name) for name in _REQUESTS}),
    )


def _seconds(given: int | str, field: str, *, least: int = 1) -> int:
    try:
        return read_duration(given, field=field, least=least)
    except InvalidSpec as error:
        raise InvalidSpec(what="revision", field=field, value=given, problem=error.problem) from None


def scaling_policy(body: ScalingBody) -> ScalingPolicy:
    """The scaling policy of a body. Raises InvalidSpec."""
    windows = {name: getattr(body, name) for name in _WINDOWS}
    return ScalingPolicy(metric=ScalingMetric(body.metric), target=body.target, **windows)


def rollout_policy(body: RolloutBody) -> RolloutPolicy:
    """The rollout policy of a body. Raises InvalidSpec."""
    return RolloutPolicy(
        strategy=RolloutStrategy(body.strategy),
        when_full=WhenFull(body.when_full),
        steps=tuple(body.steps),
        **{name: getattr(body, name) for name in _ROLLOUT},
    )


def token_spec(body: EndpointTokenBody, token_id: EndpointTokenId, deployment_id: DeploymentId) -> EndpointTokenSpec:
    """The token of a body. Raises InvalidInput."""
    return EndpointTokenSpec(
        token_id=token_id,
        deployment_id=deployment_id,
        name=body.name,
        models=tuple(body.models),
        expires_ms=None if body.expires_at is None else read_time(body.expires_at, field="expires_at", what="token"),
        limits=TokenLimits(**{name: getattr(body, name) for name in _LIMITS}),
    )


def chat_request(body: ChatBody, record: DeploymentRecord) -> dict[str, object]:
    """The request of a chat, as the gateway takes it. Raises InvalidSpec."""
    names = record.spec.served_names
    if not 1 <= len(body.messages) <= MESSAGES_MAX:
        problem = f"must be between 1 and {MESSAGES_MAX}"
        raise InvalidSpec(what="chat", field="messages", value=len(body.messages), problem=problem)
    if body.model is not None and body.model not in names:
        problem = f"is not served; the deployment answers to {', '.join(names)}"
        raise InvalidSpec(what="chat", field="model", value=body.model, problem=problem)
    if body.max_tokens is not None:
        require_int(body.max_tokens, what="chat", field="max_tokens", least=1, most=ANSWER_MAX)
    if body.temperature is not None and not 0 <= body.temperature <= TEMPERATURE_MAX:
        problem = f"must be between 0 and {TEMPERATURE_MAX}"
        raise InvalidSpec(what="chat", field="temperature", value=body.temperature, problem=problem)
    optional = {"max_tokens": body.max_tokens, "temperature": body.temperature}
    return {
        "model": body.model or names[0],
        "messages": [{"role": one.role, "content": one.content} for one in body.messages],
        **{name: value for name, value in optional.items() if value is not None},
    }


def deployment_view(
    record: DeploymentRecord,
    revision: RevisionRecord,
    *,
    replicas: Sequence[ReplicaRecord] = (),
    rollout: RolloutRecord | None = None,
    url: str = "",
) -> DeploymentView:
    """The view of a deployment with its replicas and its rollout."""
    spec, owner = record.spec, record.spec.owner
    active = sum(one.status is ReplicaStatus.ACTIVE for one in replicas)
    return DeploymentView(
        id=record.deployment_id,
        name=spec.name,
        models=list(spec.served_names),
        user=owner.user,
        group=owner.group,
        access=spec.access.value,
        status=record.status.value,
        health=deployment_health(healthy=active, desired=record.replicas_desired).value,
        replicas_min=spec.replicas_min,
        replicas_max=spec.replicas_max,
        replicas_desired=record.replicas_desired,
        replicas_active=active,
        revision=revision_view(revision),
        scaling=_scaling_body(spec.scaling),
        rollout_policy=_rollout_body(spec.rollout),
        created_at=time_text(record.created_ms),
        since=time_text(record.since_ms),
        queue=spec.queue,
        scaling_group=spec.scaling_group,
        routing="" if spec.routing is None else spec.routing.value,
        replicas=[replica_view(one) for one in replicas[:REPLICAS_SHOWN]],
        rollout=None if rollout is None else rollout_view(rollout),
        url=url,
    )


def revision_view(record: RevisionRecord) -> RevisionView:
    """The view of a revision, which can be sent again as a body."""
    spec = record.spec
    body = RevisionBody(
        engine=spec.variant,
        model=spec.model,
        command=list(spec.command),
        arguments=list(spec.arguments),
        image=spec.image or None,
        resources=dict(spec.resources),
        size=spec.kernels,
        mounts=[MountBody(source=one.source, target=one.target, read_only=one.read_only) for one in spec.mounts],
        environment=dict(spec.environment),
        secrets=dict.fromkeys(spec.secrets),
        probe=None if spec.probe is None else probe_body(spec.probe),
        startup_timeout=spec.startup_timeout_s,
        drain_timeout=spec.drain_timeout_s,
        concurrency_max=spec.concurrency_max,
        limits=RequestLimitsBody(**{name: getattr(spec.limits, name) for name in _REQUESTS}),
    )
    return RevisionView(
        number=record.number, revision=body, created_at=time_text(record.created_ms), created_by=record.created_by
    )


def probe_body(probe: Probe) -> ProbeBody:
    """The view of a probe."""
    return ProbeBody(**{name: getattr(probe, name) for name in _PROBE})


def _scaling_body(policy: ScalingPolicy) -> ScalingBody:
    windows = {name: getattr(policy, name) for name in _WINDOWS}
    return ScalingBody(metric=cast("ScalingMetricName", policy.metric.value), target=policy.target, **windows)


def _rollout_body(policy: RolloutPolicy) -> RolloutBody:
    return RolloutBody(
        strategy=policy.strategy.value,
        when_full=policy.when_full.value,
        steps=list(policy.steps),
        **{name: getattr(policy, name) for name in _ROLLOUT},
    )


def replica_view(record: ReplicaRecord) -> ReplicaView:
    """The view of a replica; its secret is not in it."""
    endpoint = record.endpoint
    return ReplicaView(
        id=record.replica_id,
        revision=record.place.revision,
        ordinal=record.place.ordinal,
        attempt=record.place.attempt,
        status=record.status.value,
        since=time_text(record.since_ms),
        session=record.session_id,
        agent=None if endpoint is None else endpoint.agent_id,
        port=None if endpoint is None else endpoint.port,
        reason_code=record.reason_code,
        reason=record.reason,
    )


def rollout_view(record: RolloutRecord) -> RolloutView:
    """The view of a rollout."""
    return RolloutView(
        id=record.rollout_id,
        revision_from=record.revision_from,
        revision_to=record.revision_to,
        strategy=record.strategy.value,
        status=record.status.value,
        started_at=time_text(record.started_ms),
        since=time_text(record.since_ms),
        step=record.step,
        weight_new=record.weight_new,
        reason=record.reason,
    )


def token_view(record: EndpointTokenRecord, month: Month, *, used: int) -> EndpointTokenView:
    """The view of a token, without its digest; `used` are its tokens of the month."""
    spec = record.spec
    budgeted = spec.limits.tokens_per_month is not None
    return EndpointTokenView(
        id=spec.token_id,
        deployment=spec.deployment_id,
        name=spec.name,
        models=list(spec.models),
        created_at=time_text(record.created_ms),
        expires_at=time_text_or_none(spec.expires_ms),
        revoked_at=time_text_or_none(record.revoked_ms),
        tokens_used=used,
        renewed_at=time_text(month.end * 60_000) if budgeted else None,
        **{name: getattr(spec.limits, name) for name in _LIMITS},
    )


def engine_view(engine: str, definition: EngineDefinition, *, image: str) -> EngineView:
    """The view of what a generator makes for a revision, without a secret."""
    return EngineView(
        engine=engine,
        command=list(definition.command),
        environment=dict(definition.environment),
        probe=probe_body(definition.probe),
        model=definition.upstream_model,
        image=image or definition.image,
        concurrency_max=definition.concurrency_max,
        routing=definition.policy.value,
        checks_secret=definition.checks_secret,
        smoke_path=definition.smoke_path if definition.probe.smoke else "",
        metrics_path=definition.metrics_path,
    )
