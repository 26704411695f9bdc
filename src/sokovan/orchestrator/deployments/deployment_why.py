"""Explains whether a deployment is as desired, and which replicas wait or failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sokovan.domain.lifecycle.deployment import DEPLOYMENT, DeploymentStatus
from sokovan.domain.lifecycle.replica import ReplicaStatus
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.domain.serving.deployment import DeploymentHealth, deployment_health
from sokovan.domain.serving.records import DeploymentRecord, ProxyRecord, ReplicaRecord, RolloutRecord
from sokovan.domain.serving.replica import CRASH_WINDOW_MS, is_crash_loop, is_own_failure
from sokovan.orchestrator.deployments.failing_replicas import ANSWERS_FAIL, FailingReplica, failing_replicas
from sokovan.orchestrator.deployments.serving_state import PROXY_TTL_MS

# Reports of proxies that are younger are used.
REPORTED_MS = PROXY_TTL_MS
_WAITS = {
    ReplicaStatus.PENDING: "its session has not been submitted yet",
    ReplicaStatus.STARTING: "its session has not started yet",
    ReplicaStatus.WARMING: "its engine runs and is not ready yet",
    ReplicaStatus.UNHEALTHY: "its engine does not answer, and it will be replaced",
}

_CHECKED = frozenset({ReplicaStatus.WARMING, ReplicaStatus.UNHEALTHY})


@dataclass(frozen=True, slots=True)
class DeploymentExplanation:
    """A code, one sentence, and each replica that does not serve, with its reason.

    `failed` is the last replica that failed, if that is why a deployment is not as desired.
    """

    health: DeploymentHealth
    code: str
    summary: str
    waiting: tuple[tuple[ReplicaRecord, str], ...] = ()
    failed: ReplicaRecord | None = None


def explain_deployment(
    record: DeploymentRecord,
    replicas: Sequence[ReplicaRecord],
    proxies: Sequence[ProxyRecord] = (),
    *,
    now_ms: int = 0,
    rollout: RolloutRecord | None = None,
) -> DeploymentExplanation:
    """The state of a deployment in words; `replicas` are live ones, then ended ones.

    `proxies` are those that reported lately: they say what keeps an engine from serving, and
    whose answers fail. `rollout` is the last one.
    """
    desired = record.replicas_desired
    active = sum(one.status is ReplicaStatus.ACTIVE for one in replicas)
    failed = [one for one in replicas if one.status is ReplicaStatus.FAILED]
    health = deployment_health(healthy=active, desired=desired)
    waiting = tuple((one, _wait(one, proxies)) for one in replicas if one.status in _WAITS)
    if record.status is DeploymentStatus.DESTROYING or record.status in DEPLOYMENT.terminal:
        return DeploymentExplanation(health, "DELETED", "it is being deleted, or has been")
    if not desired:
        return DeploymentExplanation(health, "IDLE", _idle_text(record))
    served = f"{active} of {desired} replicas serve"
    newest = max(failed, key=lambda one: one.since_ms, default=None)
    failing = _failing(replicas, proxies, now_ms)
    if failing:
        said = tuple((one.replica, _failing_text(one)) for one in failing)
        summary = f"{served}; the answers of {len(failing)} fail"
        return DeploymentExplanation(health, "ANSWERS_FAIL", summary, (*said, *waiting), failed=newest)
    if active >= desired:
        # Replicas of a revision that did not come to serve: an update failed, or fails.
        update = newest if newest is not None and newest.place.revision > record.revision else None
        return DeploymentExplanation(health, "SERVING", served + _update_text(rollout), failed=update)
    if newest is not None and not waiting:
        revision = [one for one in replicas if one.place.revision == newest.place.revision]
        at = [one.since_ms for one in revision if _failed_itself(one)]
        serving = sum(one.status is ReplicaStatus.ACTIVE for one in revision)
        summary = f"{served}; the last one failed: {newest.reason or newest.reason_code}"
        if is_crash_loop(at, newest.since_ms, serving=serving):
            return DeploymentExplanation(health, "CRASH_LOOP", f"{summary}; further attempts wait", failed=newest)
        return DeploymentExplanation(health, "REPLICAS_FAIL", summary, failed=newest)
    summary = f"{served}; {'1 is on its way' if len(waiting) == 1 else f'{len(waiting)} are on their way'}"
    return DeploymentExplanation(health, "REPLICAS_WAIT", summary, waiting, failed=newest)


def _idle_text(record: DeploymentRecord) -> str:
    if not record.spec.replicas_max:
        return "it is set to have no replicas, and requests are refused; sokovan deployment scale starts some"
    return "no replica is desired; the first request starts one"


def _update_text(rollout: RolloutRecord | None) -> str:
    """The end of the last update, if it did not succeed."""
    if rollout is None or rollout.status is not RolloutStatus.ROLLED_BACK:
        return ""
    return f"; the update to revision {rollout.revision_to} was rolled back: {rollout.reason or 'on request'}"


def _failing(replicas: Sequence[ReplicaRecord], proxies: Sequence[ProxyRecord], now_ms: int) -> list[FailingReplica]:
    """The replicas that pass their checks and fail their answers."""
    found: list[FailingReplica] = []
    for revision in sorted({one.place.revision for one in replicas}):
        some = [one for one in replicas if one.place.revision == revision]
        failed = [one.since_ms for one in some if _failed_itself(one)]
        lately = [at for at in failed if now_ms - at < CRASH_WINDOW_MS]
        found += failing_replicas(some, proxies, failed_at_ms=lately, now_ms=now_ms)
    return found


def _failed_itself(replica: ReplicaRecord) -> bool:
    return replica.status is ReplicaStatus.FAILED and is_own_failure(replica.reason_code)


def _failing_text(one: FailingReplica) -> str:
    end = f"it is not replaced now: {one.kept}" if one.kept else "it is being replaced"
    return f"{one.detail}; {end}"


def _wait(replica: ReplicaRecord, proxies: Sequence[ProxyRecord]) -> str:
    """The reason of a wait, with the last problem that a proxy had with the replica."""
    if replica.reason_code == ANSWERS_FAIL:
        return f"{replica.reason}; it is being replaced"
    name = "" if replica.endpoint is None else replica.endpoint.endpoint_id
    errors = [proxy.endpoints[name].error for proxy in proxies if name in proxy.endpoints]
    said = next((one for one in errors if one), "")
    return f"{_WAITS[replica.status]}: {said}" if said and replica.status in _CHECKED else _WAITS[replica.status]
