"""Writes the desired number of replicas; nothing else does."""

from __future__ import annotations

from collections import deque
from typing import Any

from sokovan.domain.ids import DeploymentId
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.replica import ReplicaStatus
from sokovan.domain.serving.records import DeploymentRecord, RouteDemand
from sokovan.domain.serving.scaling import (
    DemandSample,
    ScalingDecision,
    ScalingInput,
    ScalingMetric,
    decide_scale,
)
from sokovan.orchestrator.deployments.first_byte_times import percentile_ms, summed
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.ports.storage import UnitOfWork

SCALED = "scaled"
# Samples of demand are at least this far apart, and so many of them are kept: five minutes.
SAMPLE_MS, SAMPLES_MAX = 1_000, 310
# A sample of a proxy that was silent for longer is dropped.
SAMPLE_TTL_MS = 5_000
_CAPACITY = frozenset({ReplicaStatus.STARTING, ReplicaStatus.WARMING, ReplicaStatus.ACTIVE})
_SCALED = frozenset({DeploymentStatus.PENDING, DeploymentStatus.PROVISIONING, DeploymentStatus.RUNNING})


class ScalingHandler:
    """Follows bounds and demand.

    Samples are kept in memory: a new leader waits for its own.
    """

    name = "scaling"

    def __init__(self, writer: ServingWriter) -> None:
        self._writer = writer
        self._samples: dict[DeploymentId, deque[DemandSample]] = {}
        self._panic_until_ms: dict[DeploymentId, int] = {}
        # When a request was last seen, and the sum of the counters of arrivals then.
        self._last_request_ms: dict[DeploymentId, int] = {}
        self._arrived: dict[DeploymentId, int] = {}
        # The histogram of times to the first byte then.
        self._first_bytes: dict[DeploymentId, list[int]] = {}

    async def handle(self, cycle: ServingState) -> bool:
        """Scale all deployments."""
        scaled = {key: one for key, one in cycle.deployments.items() if one.status in _SCALED}
        for gone in set(self._samples) - set(scaled):
            for kept in self._kept():
                kept.pop(gone, None)
        return await self._writer.each(self.name, scaled.values(), lambda one: self._scale(cycle, one))

    def clear(self) -> None:
        """Forget the samples of an earlier term."""
        for kept in self._kept():
            kept.clear()

    def _kept(self) -> tuple[dict[DeploymentId, Any], ...]:
        return self._samples, self._panic_until_ms, self._last_request_ms, self._arrived, self._first_bytes

    async def _scale(self, state: ServingState, deployment: DeploymentRecord) -> bool:
        decision = self._decide(state, deployment)
        if decision.desired == deployment.replicas_desired:
            return False
        change = self._writer.change(SCALED, f"{deployment.replicas_desired} to {decision.desired} replicas")

        async def work(unit: UnitOfWork) -> bool:
            await unit.deployments.scale(deployment, decision.desired, change, holding=decision.desired == 0)
            return True

        return await self._writer.run(work)

    def _decide(self, state: ServingState, deployment: DeploymentRecord) -> ScalingDecision:
        spec, key = deployment.spec, deployment.deployment_id
        samples = self._samples.setdefault(key, deque(maxlen=SAMPLES_MAX))
        if spec.scaling.metric is not ScalingMetric.MANUAL:
            self._sample(state, deployment, samples)
        concurrency = state.revisions[key, deployment.revision].spec.concurrency_max
        decision = decide_scale(
            ScalingInput(
                policy=spec.scaling,
                target=spec.scaling.target_of(concurrency),
                bounds=(spec.replicas_min, spec.replicas_max),
                samples=tuple(samples),
                desired=deployment.replicas_desired,
                ready=sum(one.status in _CAPACITY for one in state.replicas_of(key)),
                now_ms=state.now_ms,
                panic_until_ms=self._panic_until_ms.get(key, 0),
                idle_ms=state.now_ms - self._last_request_ms.get(key, state.now_ms),
            )
        )
        self._panic_until_ms[key] = decision.panic_until_ms
        return decision

    def _sample(self, state: ServingState, deployment: DeploymentRecord, samples: deque[DemandSample]) -> None:
        if samples and state.now_ms - samples[-1].at_ms < SAMPLE_MS:
            return
        fresh = [one for one in state.proxies if state.now_ms - one.reported_ms <= SAMPLE_TTL_MS]
        reports = [one.routes[deployment.deployment_id] for one in fresh if deployment.deployment_id in one.routes]
        if reports:
            demand = self._demand(state, deployment, reports, samples[-1].at_ms if samples else None)
            samples.append(DemandSample(state.now_ms, demand, deployment.replicas_desired))

    def _demand(
        self, state: ServingState, deployment: DeploymentRecord, reports: list[RouteDemand], since_ms: int | None
    ) -> int:
        """The demand now; a request that came and went between two reports counts too."""
        key = deployment.deployment_id
        waiting, arrived = sum(one.in_flight + one.queued for one in reports), sum(one.arrived for one in reports)
        # A proxy that restarts counts from zero.
        new = max(0, arrived - self._arrived.get(key, arrived))
        self._arrived[key] = arrived
        if waiting or new or key not in self._last_request_ms:
            self._last_request_ms[key] = state.now_ms
        late_ms = self._late_ms(key, reports)
        metric = deployment.spec.scaling.metric
        if metric is ScalingMetric.TTFT_P95 and deployment.replicas_desired:
            # Demand is per deployment: with twice the time of the target, twice the replicas are wanted.
            serving = sum(one.status is ReplicaStatus.ACTIVE for one in state.replicas_of(key))
            return max(late_ms * serving, min(waiting + new, 1))
        if metric is ScalingMetric.QUEUE and deployment.replicas_desired:
            queued, in_engines = sum(one.queued for one in reports), _waiting_in_engines(state, key)
            concurrency = state.revisions[key, deployment.revision].spec.concurrency_max
            running = max(0, waiting - queued - in_engines)
            return max(deployment.spec.scaling.queue_demand(running, queued + in_engines, concurrency), min(new, 1))
        if metric is not ScalingMetric.QPS or not deployment.replicas_desired:
            return max(waiting, min(new, 1))
        passed_ms = SAMPLE_MS if since_ms is None else max(1, state.now_ms - since_ms)
        return max(-(-new * 1000 // passed_ms), min(waiting, 1))

    def _late_ms(self, key: DeploymentId, reports: list[RouteDemand]) -> int:
        """The 95th percentile of the times to the first byte since the last sample."""
        counts = summed(each.first_byte_counts for one in reports for each in one.revisions.values())
        before = self._first_bytes.get(key, counts)
        self._first_bytes[key] = counts
        # A proxy that restarts counts from zero.
        return percentile_ms([max(0, now - past) for now, past in zip(counts, before, strict=True)], 95)


def _waiting_in_engines(state: ServingState, key: DeploymentId) -> int:
    """The requests in the queues of engines; each proxy reports all that an engine has."""
    reports = (state.reports_on(one) for one in state.replicas_of(key))
    return sum(max((report.waiting for report in some), default=0) for some in reports)
