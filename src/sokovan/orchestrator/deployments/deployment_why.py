"""Explains whether a deployment is as desired, and which replicas wait or failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sokovan.domain.lifecycle.deployment import DEPLOYMENT, DeploymentStatus
from sokovan.domain.lifecycle.replica import ReplicaStatus
from sokovan.domain.serving.deployment import DeploymentHealth, deployment_health
from sokovan.domain.serving.records import DeploymentRecord, ProxyRecord, ReplicaRecord
from sokovan.domain.serving.replica import is_crash_loop
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
    record: DeploymentRecord, replicas: Sequence[ReplicaRecord], proxies: Sequence[ProxyRecord] = ()
) -> DeploymentExplanation:
    """The state of a deployment in words; `replicas` are live ones, then ended ones.

    `proxies` are those that reported lately: they say what keeps an engine from serving.
    """
    desired = record.replicas_desired
    active = sum(one.status is ReplicaStatus.ACTIVE for one in replicas)
    failed = [one for one in replicas if one.status is ReplicaStatus.FAILED]
    health = deployment_health(healthy=active, desired=desired)
    waiting = tuple((one, _wait(one, proxies)) for one in replicas if one.status in _WAITS)
    if record.status is DeploymentStatus.DESTROYING or record.status in DEPLOYMENT.terminal:
        return DeploymentExplanation(health, "DELETED", "it is being deleted, or has been")
    if not desired:
        return DeploymentExplanation(health, "IDLE", "no replica is desired; the first request starts one")
    served = f"{active} of {desired} replicas serve"
    newest = max(failed, key=lambda one: one.since_ms, default=None)
    if active >= desired:
        # Replicas of a revision that did not come to serve: an update failed, or fails.
        update = newest if newest is not None and newest.place.revision > record.revision else None
        return DeploymentExplanation(health, "SERVING", served, failed=update)
    if newest is not None and not waiting:
        at = [one.since_ms for one in failed]
        loop = "; further attempts wait" if is_crash_loop(at, newest.since_ms) else ""
        reason = newest.reason or newest.reason_code
        summary = f"{served}; the last one failed: {reason}{loop}"
        return DeploymentExplanation(health, "REPLICAS_FAIL", summary, failed=newest)
    summary = f"{served}; {len(waiting)} are on their way"
    return DeploymentExplanation(health, "REPLICAS_WAIT", summary, waiting, failed=newest)


def _wait(replica: ReplicaRecord, proxies: Sequence[ProxyRecord]) -> str:
    """The reason of a wait, with the last problem that a proxy had with the replica."""
    name = "" if replica.endpoint is None else replica.endpoint.endpoint_id
    errors = [proxy.endpoints[name].error for proxy in proxies if name in proxy.endpoints]
    said = next((one for one in errors if one), "")
    return f"{_WAITS[replica.status]}: {said}" if said and replica.status in _CHECKED else _WAITS[replica.status]
