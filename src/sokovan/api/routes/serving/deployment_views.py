"""Views of deployments, read with their revision, replicas and rollout."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from starlette.requests import Request

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.deployments import deployment_named
from sokovan.api.mapping.deployments import deployment_view
from sokovan.domain.serving.records import DeploymentRecord, EndpointObservation, ProxyRecord, ReplicaRecord
from sokovan.orchestrator.deployments.first_byte_times import percentile_ms, summed
from sokovan.orchestrator.deployments.serving_state import PROXY_TTL_MS
from sokovan.ports.storage import Store, UnitOfWork
from sokovan.wire.api.deployments import DeploymentView, LatencyView
from sokovan.wire.serving.proxy_reports import LATENCY_WINDOW_S

MEDIAN, MOST = 50, 95


class DeploymentViews:
    """Reads views; `url` is the gateway's, empty where there is none."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def of(
        self, unit: UnitOfWork, record: DeploymentRecord, proxies: Sequence[ProxyRecord] | None = None
    ) -> DeploymentView:
        """The view of a deployment; without `proxies`, their reports are read."""
        deployment_id = record.deployment_id
        rollouts = await unit.rollouts.live(deployment_id)
        replicas = await unit.replicas.live(deployment_id)
        view = deployment_view(
            record,
            await unit.deployments.revision(deployment_id, record.revision),
            replicas=replicas,
            rollout=rollouts[0] if rollouts else None,
            url=self._url,
        )
        return with_latencies(view, replicas, await self.proxies(unit) if proxies is None else proxies)

    async def proxies(self, unit: UnitOfWork) -> Sequence[ProxyRecord]:
        """The last reports of the proxies that report, which hold for every deployment."""
        return await unit.proxies.live(since_ms=unit.now_ms - PROXY_TTL_MS)

    async def read(self, store: Store, request: Request, ref: str) -> DeploymentView:
        """The view of the deployment that a reference means to the caller."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> DeploymentView:
            return await self.of(unit, await deployment_named(unit, ref, principal))

        return await store.read(work)


def with_latencies(
    view: DeploymentView, replicas: Sequence[ReplicaRecord], proxies: Iterable[ProxyRecord]
) -> DeploymentView:
    """The view with the latencies that proxies report, of each replica and of all."""
    reports = {str(one.replica_id): _reports_on(one, proxies) for one in replicas}
    return replace(
        view,
        latency=latency_view([one for each in reports.values() for one in each]),
        replicas=[replace(one, latency=latency_view(reports.get(one.id, []))) for one in view.replicas],
    )


def _reports_on(replica: ReplicaRecord, proxies: Iterable[ProxyRecord]) -> list[EndpointObservation]:
    if replica.endpoint is None:
        return []
    endpoint_id = replica.endpoint.endpoint_id
    return [one.endpoints[endpoint_id] for one in proxies if endpoint_id in one.endpoints]


def latency_view(reports: Collection[EndpointObservation]) -> LatencyView | None:
    """The percentiles of all reports together; None if no answer came lately."""
    began = summed(one.began_recently for one in reports)
    ended = summed(one.ended_recently for one in reports)
    if not sum(began):
        return None
    return LatencyView(
        window_s=LATENCY_WINDOW_S,
        answers=sum(began),
        first_p50_ms=percentile_ms(began, MEDIAN),
        first_p95_ms=percentile_ms(began, MOST),
        whole_answers=sum(ended),
        whole_p50_ms=percentile_ms(ended, MEDIAN),
        whole_p95_ms=percentile_ms(ended, MOST),
    )
