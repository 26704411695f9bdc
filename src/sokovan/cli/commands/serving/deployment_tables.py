"""Tables and field lists of deployments, replicas, revisions and rollouts."""

from __future__ import annotations

from sokovan.cli import formatting
from sokovan.cli.commands.serving.revision_options import revision_facts
from sokovan.cli.formatting import or_none
from sokovan.cli.output import table
from sokovan.cli.rendering import Column
from sokovan.sdk.environment import SystemEnvironment
from sokovan.wire.api.deployments import DeploymentView, LatencyView, ReplicaView, RevisionView, RolloutView

REPLICA_HEADINGS = ("REPLICA", "REVISION", "STATE", "SESSION", "WHERE", "AGE", "FIRST", "WHOLE", "NOTE")


def deployment_columns(*, utc: bool = False) -> list[Column[DeploymentView]]:
    """The columns of a list of deployments."""
    now = SystemEnvironment().wall_s()
    return [
        Column("name", lambda view: view.name),
        Column("state", lambda view: view.status.upper()),
        Column("health", lambda view: view.health),
        Column("replicas", lambda view: f"{view.replicas_active}/{view.replicas_desired}"),
        Column("revision", revision_text),
        Column("engine", lambda view: view.revision.revision.engine),
        Column("model", lambda view: view.revision.revision.model or formatting.NONE),
        Column("age", lambda view: formatting.age(view.created_at, now_s=now, utc=utc)),
        Column("first", lambda view: first_text(view.latency), wide=True),
        Column("whole", lambda view: whole_text(view.latency), wide=True),
        Column("id", lambda view: view.id, wide=True),
        Column("user", lambda view: view.user, wide=True),
        Column("group", lambda view: view.group, wide=True),
        Column("access", lambda view: view.access, wide=True),
        Column("serves", lambda view: ", ".join(view.models), wide=True),
    ]


def revision_text(view: DeploymentView) -> str:
    """The revision, and the one that it changes to."""
    rollout = view.rollout
    return str(view.revision.number) if rollout is None else f"{rollout.revision_from} → {rollout.revision_to}"


def progress(view: DeploymentView) -> str:
    """One line about the state of a deployment."""
    rollout = f"  revision {revision_text(view)} {view.rollout.status}" if view.rollout is not None else ""
    return f"{view.name}  {view.status.upper()}  {view.replicas_active}/{view.replicas_desired} replicas{rollout}"


def deployment_facts(view: DeploymentView) -> list[tuple[str, str]]:
    """The lines of `deployment show`, without the replicas."""
    revision = revision_facts(view.revision.revision)
    bounds = f"{view.replicas_min} to {view.replicas_max}" if view.replicas_min != view.replicas_max else "fixed"
    facts = [
        ("name", view.name),
        ("id", view.id),
        ("state", view.status.upper()),
        ("health", view.health),
        ("replicas", f"{view.replicas_active} of {view.replicas_desired} ({bounds})"),
        ("scaling", view.scaling.metric),
        ("models", ", ".join(view.models)),
        ("url", view.url or formatting.NONE),
        ("access", view.access),
        ("latency", latency_text(view.latency)),
        ("revision", revision_text(view)),
        *((name, value) for name, value in revision.items() if value),
        ("owner", f"{view.user} ({view.group})"),
        ("queue", view.queue),
        ("created", view.created_at),
    ]
    return facts if view.rollout is None else [*facts, ("rollout", rollout_text(view.rollout))]


def latency_text(latency: LatencyView | None) -> str:
    """How long answers took lately, in one line."""
    if latency is None:
        return "no answers in the last minutes"
    minutes = latency.window_s // 60
    return (
        f"{first_text(latency)} to the first token, {whole_text(latency)} to the end"
        f" (p50/p95 of {latency.answers} in {minutes}m)"
    )


def first_text(latency: LatencyView | None) -> str:
    """The times to the first part of answers: p50/p95."""
    return formatting.NONE if latency is None else _times(latency.first_p50_ms, latency.first_p95_ms)


def whole_text(latency: LatencyView | None) -> str:
    """The times of whole answers: p50/p95."""
    if latency is None or not latency.whole_answers:
        return formatting.NONE
    return _times(latency.whole_p50_ms, latency.whole_p95_ms)


def _times(median_ms: int, most_ms: int) -> str:
    return f"{_time(median_ms)}/{_time(most_ms)}"


def _time(ms: int) -> str:
    return f"{ms}ms" if ms < 1_000 else f"{ms / 1000:.1f}s"


def rollout_text(rollout: RolloutView) -> str:
    """A rollout in one line."""
    share = f", {rollout.weight_new} % of requests" if rollout.weight_new else ""
    reason = f": {rollout.reason}" if rollout.reason else ""
    return f"{rollout.strategy} {rollout.status}{share}{reason}"


def replica_table(view: DeploymentView, *, utc: bool = False) -> str:
    """The replicas of a deployment."""
    now = SystemEnvironment().wall_s()
    return table(REPLICA_HEADINGS, [_replica_row(replica, now, utc=utc) for replica in view.replicas])


def _replica_row(replica: ReplicaView, now_s: float, *, utc: bool) -> tuple[str, ...]:
    return (
        replica_name(replica),
        str(replica.revision),
        replica.status.upper(),
        or_none(replica.session),
        f"{replica.agent}:{replica.port}" if replica.agent else formatting.NONE,
        formatting.age(replica.since, now_s=now_s, utc=utc),
        first_text(replica.latency),
        whole_text(replica.latency),
        replica.reason or replica.reason_code,
    )


def replica_name(replica: ReplicaView) -> str:
    """The number of a replica, and of its attempt after the first."""
    return f"{replica.ordinal}" if replica.attempt == 1 else f"{replica.ordinal} (attempt {replica.attempt})"


def revision_columns(*, utc: bool = False) -> list[Column[RevisionView]]:
    """The columns of the revisions of a deployment."""
    now = SystemEnvironment().wall_s()
    return [
        Column("revision", lambda view: str(view.number)),
        Column("engine", lambda view: view.revision.engine),
        Column("model", lambda view: view.revision.model or formatting.NONE),
        Column("resources", lambda view: revision_facts(view.revision)["resources"] or formatting.NONE),
        Column("arguments", lambda view: revision_facts(view.revision)["arguments"] or formatting.NONE),
        Column("age", lambda view: formatting.age(view.created_at, now_s=now, utc=utc)),
        Column("by", lambda view: view.created_by or formatting.NONE),
    ]
