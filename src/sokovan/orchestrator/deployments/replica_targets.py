"""Decides how many replicas of each revision there should be, and which ones go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sokovan.domain.lifecycle.replica import COUNTED, ReplicaStatus
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.domain.serving.records import DeploymentRecord, ReplicaRecord, RolloutRecord
from sokovan.domain.serving.rollout import (
    SETTLED_MS,
    RolloutDecision,
    RolloutInput,
    RolloutStrategy,
    SideCounts,
    decide_rollout,
)
from sokovan.orchestrator.deployments.serving_state import ServingState

LATE, SMOKE_FAILED = "not-ready-in-time", "smoke-request-failed"
# Replicas that serve least are ended first.
_LEAVING_ORDER = (
    ReplicaStatus.PENDING,
    ReplicaStatus.STARTING,
    ReplicaStatus.WARMING,
    ReplicaStatus.UNHEALTHY,
    ReplicaStatus.ACTIVE,
)


def counted(replicas: Iterable[ReplicaRecord]) -> list[ReplicaRecord]:
    """The replicas that count towards the wanted number."""
    return [one for one in replicas if one.status in COUNTED]


def active(replicas: Iterable[ReplicaRecord]) -> list[ReplicaRecord]:
    """The replicas that serve."""
    return [one for one in replicas if one.status is ReplicaStatus.ACTIVE]


def rollout_decision(
    state: ServingState, deployment: DeploymentRecord, rollout: RolloutRecord, *, worse: str = ""
) -> RolloutDecision:
    """The next step of a rollout in this state; `worse` is why it serves worse."""
    promoted = rollout.status is RolloutStatus.PROMOTING
    return decide_rollout(
        RolloutInput(
            policy=deployment.spec.rollout,
            desired=deployment.replicas_desired,
            old=_side(state, rollout, rollout.revision_from),
            new=_side(state, rollout, rollout.revision_to),
            surge=rollout.surge,
            unavailable=rollout.unavailable,
            step=rollout.step,
            step_ms=state.now_ms - rollout.step_since_ms,
            backward=rollout.status is RolloutStatus.ROLLING_BACK,
            promoted=promoted,
            share=deployment.spec.shares.get(str(rollout.revision_to)),
            worse=worse,
        )
    )


def wanted_replicas(state: ServingState, deployment: DeploymentRecord) -> dict[int, int]:
    """How many replicas of each revision are wanted; none of those not named."""
    rollout = state.rollouts.get(deployment.deployment_id)
    if rollout is None or rollout.status is RolloutStatus.PLANNING:
        return {deployment.revision: deployment.replicas_desired}
    decision = rollout_decision(state, deployment, rollout)
    return {rollout.revision_from: decision.old, rollout.revision_to: decision.new}


def leaving(state: ServingState, replicas: Sequence[ReplicaRecord], surplus: int) -> list[ReplicaRecord]:
    """The replicas to end: those not ACTIVE yet first, then the least loaded."""

    def rank(replica: ReplicaRecord) -> tuple[int, int, int]:
        load = sum(report.outstanding for report in state.reports_on(replica))
        return _LEAVING_ORDER.index(replica.status), load, -replica.place.ordinal

    return sorted(counted(replicas), key=rank)[: max(0, surplus)]


def leaving_agents(state: ServingState, replicas: Sequence[ReplicaRecord]) -> list[ReplicaRecord]:
    """The counted replicas on agents that drain.

    Each stays until another one serves in its place. A rolling update moves its replicas by itself,
    and counts all that there are.
    """
    if not state.draining_agents or not replicas:
        return []
    rollout = state.rollouts.get(replicas[0].place.deployment_id)
    is_rolling = rollout is not None and rollout.strategy is RolloutStrategy.ROLLING
    if rollout is not None and is_rolling and rollout.status is not RolloutStatus.PLANNING:
        return []
    on = state.draining_agents
    return [one for one in counted(replicas) if one.endpoint is not None and one.endpoint.agent_id in on]


def replaced(
    state: ServingState, moving: Sequence[ReplicaRecord], staying: Sequence[ReplicaRecord], wanted: int
) -> list[ReplicaRecord]:
    """The replicas of agents that drain whose replacements serve by now."""
    return leaving(state, moving, len(active(staying)) + len(moving) - wanted)


def free_ordinals(replicas: Sequence[ReplicaRecord], number: int) -> list[int]:
    """The lowest places that no counted replica has."""
    taken = {one.place.ordinal for one in counted(replicas)}
    return [ordinal for ordinal in range(len(taken) + number) if ordinal not in taken][:number]


def _side(state: ServingState, rollout: RolloutRecord, revision: int) -> SideCounts:
    replicas = state.replicas_of(rollout.deployment_id, revision)
    serving = active(replicas)
    failed = [
        one for one in state.failures.get((rollout.deployment_id, revision), ()) if one.since_ms >= rollout.started_ms
    ]
    return SideCounts(
        counted=len(counted(replicas)),
        active=len(serving),
        settled=sum(state.now_ms - one.since_ms >= SETTLED_MS for one in serving),
        present=len(replicas),
        failed=len(failed),
        late=sum(one.reason_code == LATE for one in failed),
        smoke=next((one.reason for one in reversed(failed) if one.reason_code == SMOKE_FAILED), ""),
    )
