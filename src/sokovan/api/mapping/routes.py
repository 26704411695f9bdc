"""Converts routes from and to wire types."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sokovan.api.mapping.times import time_text
from sokovan.domain.lifecycle.route import RouteStatus
from sokovan.domain.serving.deployment import DeploymentAccess
from sokovan.domain.serving.engine import RoutingPolicy
from sokovan.domain.serving.records import DeploymentRecord, ProxyRecord, ReplicaRecord, RouteRecord
from sokovan.orchestrator.routes.table_entries import entry_of
from sokovan.wire.api.routes import GatewayView, RouteBody, RouteEndpointView, RouteShareView, RouteView
from sokovan.wire.serving.route_table import EndpointEntry, RouteEntry


def route_changes(body: RouteBody) -> dict[str, Any]:
    """The fields of the deployment that a body changes."""
    changes: dict[str, Any] = {}
    if body.weights is not None:
        changes["weights"] = dict(body.weights)
    if body.shares is not None:
        changes["shares"] = dict(body.shares)
    if body.model_names is not None:
        changes["model_names"] = tuple(dict.fromkeys(body.model_names))
    if body.routing is not None:
        changes["routing"] = RoutingPolicy(body.routing)
    if body.sticky_by is not None:
        changes["sticky_by"] = body.sticky_by
    if body.access is not None:
        changes["access"] = DeploymentAccess(body.access)
    return changes


def route_view(
    deployment: DeploymentRecord,
    route: RouteRecord | None,
    *,
    replicas: Sequence[ReplicaRecord],
    proxies: Sequence[ProxyRecord],
    epoch: str,
    url: str = "",
) -> RouteView:
    """The view of a route; without a record, that of one which is not configured yet."""
    spec = deployment.spec
    entry = entry_of(route.entry) if route is not None and route.entry else None
    version = 0 if route is None else route.table_version
    return RouteView(
        deployment=deployment.deployment_id,
        name=spec.name,
        status=RouteStatus.PENDING.value if route is None else route.status.value,
        models=list(spec.served_names),
        access=spec.access.value,
        routing=entry.policy if entry is not None else "" if spec.routing is None else spec.routing.value,
        weights=dict(spec.weights),
        table_version=version,
        proxies=len(proxies),
        acknowledged=sum(one.epoch == epoch and one.version >= version for one in proxies),
        holding=entry is not None and entry.holding,
        refusal="" if entry is None or entry.refusal is None else entry.refusal.text,
        revisions=[]
        if entry is None
        else [RouteShareView(revision=one.revision, weight=one.weight) for one in entry.revisions],
        endpoints=[] if entry is None else _endpoints(entry, replicas, proxies),
        url=url,
        shares=dict(spec.shares),
        sticky_by=spec.sticky_by,
    )


def gateway_views(
    proxies: Sequence[ProxyRecord], reporting: Collection[str], *, epoch: str, version: int
) -> list[GatewayView]:
    """The gateways of proxies, by URL; `version` is that of the newest table."""
    found = [
        GatewayView(
            proxy=one.proxy_id,
            url=one.url,
            reporting=one.proxy_id in reporting,
            current=one.proxy_id in reporting and (one.epoch, one.version) == (epoch, version),
            reported_at=time_text(one.reported_ms),
        )
        for one in proxies
    ]
    return sorted(found, key=lambda one: (one.url, one.proxy))


def _endpoints(
    entry: RouteEntry, replicas: Sequence[ReplicaRecord], proxies: Sequence[ProxyRecord]
) -> list[RouteEndpointView]:
    by_id = {one.endpoint.endpoint_id: one for one in replicas if one.endpoint is not None}
    found = [_endpoint(one, by_id[one.endpoint_id], proxies) for one in entry.endpoints if one.endpoint_id in by_id]
    return sorted(found, key=lambda one: (one.revision, one.replica))


def _endpoint(entry: EndpointEntry, replica: ReplicaRecord, proxies: Sequence[ProxyRecord]) -> RouteEndpointView:
    reports = [one.endpoints[entry.endpoint_id] for one in proxies if entry.endpoint_id in one.endpoints]
    verdicts = [one.healthy and not one.stalled for one in reports if one.healthy is not None]
    return RouteEndpointView(
        replica=replica.place.ordinal,
        revision=replica.place.revision,
        status=entry.state.lower(),
        weight=entry.weight,
        agent="" if replica.endpoint is None else replica.endpoint.agent_id,
        port=entry.port,
        healthy=any(verdicts) if verdicts else None,
        outstanding=sum(one.outstanding for one in reports),
        served=sum(one.served for one in reports),
        error=next((one.error for one in reports if one.error), ""),
        waiting=max((one.waiting for one in reports), default=0),
        answers=sum(one.answers for one in reports),
        failures=sum(one.failures for one in reports),
        failing=any(one.failing for one in reports),
        ejected=sum(one.ejected for one in reports),
        ejections=sum(one.ejections for one in reports),
    )
