"""Contract of `ports.repositories.routes`: routes, endpoint tokens, proxies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from sokovan.domain.errors import Conflict, ForbiddenCause, IllegalTransition, ObjectNotFound, StaleVersion
from sokovan.domain.ids import DeploymentId, EndpointTokenId, RouteId
from sokovan.domain.lifecycle.route import RouteStatus, RouteTrigger
from sokovan.domain.records import Change
from sokovan.domain.serving.records import (
    EndpointObservation,
    EndpointTokenRecord,
    ProxyRecord,
    RouteDemand,
    RouteRecord,
    UsageCount,
)
from sokovan.domain.serving.route import RouteSpec
from sokovan.domain.serving.token import EndpointTokenSpec, TokenLimits
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.repositories.serving import created, is_whole
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER, StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
_R = RouteTrigger


async def routed(cluster: StoredCluster, deployment: DeploymentId | None = None) -> RouteRecord:
    """A new route, of a new deployment unless one is given."""
    owner = deployment or (await created(cluster)).deployment_id
    spec = RouteSpec(RouteId(cluster.new("r")), owner)
    return await cluster.store.run(lambda unit: unit.routes.create(spec, BY_COORDINATOR))


async def route_now(cluster: StoredCluster, name: str) -> RouteRecord:
    """The current record of a route."""
    return await cluster.store.read(lambda unit: unit.routes.get(RouteId(name)))


async def route_moved(
    cluster: StoredCluster, record: RouteRecord, trigger: RouteTrigger, change: Change = BY_COORDINATOR
) -> RouteRecord:
    """Move a route from the given record."""
    return await cluster.store.run(lambda unit: unit.routes.move(record, trigger, change))


async def published_entry(cluster: StoredCluster, record: RouteRecord, entry: str) -> RouteRecord:
    """Publish another entry of a route."""
    return await cluster.store.run(lambda unit: unit.routes.publish(record, entry))


async def tokened(cluster: StoredCluster, deployment: DeploymentId) -> EndpointTokenRecord:
    """A new token."""
    spec = EndpointTokenSpec(
        token_id=EndpointTokenId(cluster.new("tok")),
        deployment_id=deployment,
        name="mine",
        models=("llama",),
        expires_ms=7,
        limits=TokenLimits(requests_per_minute=3, tokens_per_month=9),
    )
    return await cluster.store.run(lambda unit: unit.endpoint_tokens.create(spec, cluster.new("digest"), "u"))


def report_of(cluster: StoredCluster) -> ProxyRecord:
    """A report with all fields."""
    return ProxyRecord(
        proxy_id=cluster.new("proxy"),
        incarnation=3,
        epoch="e",
        version=4,
        reported_ms=0,
        url="https://gateway-1:7648",
        endpoints={
            "k.1": EndpointObservation(
                healthy=True,
                outstanding=2,
                served=5,
                stalled=True,
                error="x",
                began_recently=(0, 2),
                ended_recently=(1,),
            )
        },
        routes={"d": RouteDemand(in_flight=1, queued=2, arrived=3, served=4, holding=True)},
    )


def usage_of(deployment: DeploymentId, sequence: int, requests: int = 1) -> UsageCount:
    """Some usage."""
    return UsageCount(
        sequence=sequence,
        minute=10,
        key_id="key",
        deployment_id=deployment,
        revision=1,
        requests=requests,
        input_tokens=5 * requests,
    )


async def _reported(cluster: StoredCluster, report: ProxyRecord, deployment: DeploymentId, *sequences: int) -> int:
    usage = [usage_of(deployment, sequence) for sequence in sequences]
    return (await cluster.store.run(lambda unit: unit.proxies.report(report, usage))).usage_sequence


async def a_new_route_is_pending_and_not_published(cluster: StoredCluster) -> None:
    """One per deployment; Conflict for a second."""
    deployment = (await created(cluster)).deployment_id
    expect(await cluster.store.read(lambda unit: unit.routes.of_deployment(deployment)) is None, "it has a route")
    record = await routed(cluster, deployment)
    expect((record.status, record.entry) == (RouteStatus.PENDING, ""), "it is not new")
    expect(await route_now(cluster, record.spec.route_id) == record, "create gave another record than get")
    expect(await cluster.store.read(lambda unit: unit.routes.of_deployment(deployment)) == record, "it is not found")
    await refusal(routed(cluster, deployment), Conflict)
    await refusal(routed(cluster, DeploymentId(cluster.new("d"))), ObjectNotFound)
    await refusal(route_now(cluster, cluster.new("r")), ObjectNotFound)


async def a_route_takes_only_legal_moves(cluster: StoredCluster) -> None:
    """It recovers from an error, but not from its end."""
    record = await routed(cluster)
    await refusal(route_moved(cluster, record, _R.ENDPOINT_HEALTHY), IllegalTransition)
    await refusal(route_moved(cluster, record, _R.CONFIGURED, BY_USER), ForbiddenCause)
    steps = (_R.CONFIGURED, _R.HEALTH_FAILED, _R.ENDPOINT_HEALTHY, _R.ENDPOINTS_CHANGED, _R.DELETE_REQUESTED, _R.FORCED)
    for trigger in steps:
        expect(record in await cluster.store.read(lambda unit: unit.routes.live()), "a live route is not listed")
        record = await route_moved(cluster, record, trigger)
    expect(record.status is RouteStatus.TERMINATED, f"it is {record.status}")
    expect(record not in await cluster.store.read(lambda unit: unit.routes.live()), "an ended route is live")
    for trigger in _R:
        await refusal(route_moved(cluster, record, trigger), IllegalTransition)
    entries = await cluster.store.read(lambda unit: unit.routes.history(record.spec.route_id))
    triggers = [entry.trigger for entry in entries]
    expect(triggers == ["created", *(trigger.value for trigger in steps)], f"the history is {triggers}")
    expect(is_whole(entries), "the history has a gap or is not chained")


async def each_publication_has_the_next_version(cluster: StoredCluster) -> None:
    """A reader gets what was published after its version, removals included."""
    first, second = await routed(cluster), await routed(cluster)
    one = await published_entry(cluster, first, "one")
    two = await published_entry(cluster, second, "two")
    expect(two.table_version > one.table_version > 0, "the versions do not grow")
    await refusal(published_entry(cluster, first, "stale"), StaleVersion)
    delta = await cluster.store.read(lambda unit: unit.routes.table(since=one.table_version))
    expect(second.spec in [route.spec for route in delta.routes], "what was published later is missing")
    expect(first.spec not in [route.spec for route in delta.routes], "what is known is given again")
    gone = await published_entry(cluster, one, "")
    whole = await cluster.store.read(lambda unit: unit.routes.table())
    expect(one.spec not in [route.spec for route in whole.routes], "a removed entry is in the table")
    expect(second.spec in [route.spec for route in whole.routes], "an entry is missing from the table")
    later = await cluster.store.read(lambda unit: unit.routes.table(since=two.table_version))
    expect(gone in later.routes, "a removal is not in the changes")
    expect((later.epoch, later.version) == (whole.epoch, whole.version) != ("", 0), "epoch or version differs")
    expect(await cluster.store.read(lambda unit: unit.routes.version()) == (later.epoch, later.version), "version")


async def tokens_are_published_with_the_table(cluster: StoredCluster) -> None:
    """New ones and revoked ones are changes; all fields are stored."""
    deployment = (await created(cluster)).deployment_id
    token = await tokened(cluster, deployment)
    expect(token.spec.limits.tokens_per_month == 9 and token.spec.expires_ms == 7, "fields are lost")
    whole = await cluster.store.read(lambda unit: unit.routes.table())
    expect(token in whole.tokens, "a token is not in the table")
    listed = await cluster.store.read(lambda unit: unit.endpoint_tokens.of_deployment(deployment))
    expect(list(listed) == [token], "a token is not listed")
    expect(await cluster.store.read(lambda unit: unit.endpoint_tokens.find(token.digest)) == token, "it is not found")
    for _ in range(2):
        await cluster.store.run(lambda unit: unit.endpoint_tokens.revoke(token.spec.token_id))
    expect(not await cluster.store.read(lambda unit: unit.endpoint_tokens.of_deployment(deployment)), "it is listed")
    expect(await cluster.store.read(lambda unit: unit.endpoint_tokens.find(token.digest)) is None, "it is found")
    delta = await cluster.store.read(lambda unit: unit.routes.table(since=whole.version))
    [revoked] = [one for one in delta.tokens if one.spec == token.spec]
    expect(revoked.revoked_ms is not None, "the change does not say that it is revoked")
    same = replace(token.spec, token_id=EndpointTokenId(cluster.new("tok")))
    await refusal(cluster.store.run(lambda unit: unit.endpoint_tokens.create(same, token.digest, "u")), Conflict)


async def the_last_report_of_a_proxy_is_kept(cluster: StoredCluster) -> None:
    """With all fields, by the store's time."""
    report = report_of(cluster)
    await cluster.store.run(lambda unit: unit.proxies.report(report))
    newer = replace(report, version=9, endpoints={})
    await cluster.store.run(lambda unit: unit.proxies.report(report))
    [found] = [
        one
        for one in await cluster.store.read(lambda unit: unit.proxies.live(since_ms=0))
        if one.proxy_id == report.proxy_id
    ]
    expect(replace(found, reported_ms=0) == report, f"the report is {found}")
    await cluster.store.run(lambda unit: unit.proxies.report(newer))
    late = await cluster.store.read(lambda unit: unit.proxies.live(since_ms=found.reported_ms + 3_600_000))
    expect(report.proxy_id not in [one.proxy_id for one in late], "a silent proxy is live")


async def usage_is_ingested_once(cluster: StoredCluster) -> None:
    """However often a proxy sends it."""
    report, deployment = report_of(cluster), (await created(cluster)).deployment_id
    acknowledged = [await _reported(cluster, report, deployment, *batch) for batch in ((1, 2), (2, 3), (1, 2, 3), ())]
    expect(acknowledged == [2, 3, 3, 3], f"usage up to {acknowledged} is acknowledged")
    [total] = await cluster.store.read(lambda unit: unit.proxies.usage(deployment, since_minute=0))
    expect((total.requests, total.input_tokens) == (3, 15), f"the usage is {total}")
    other = replace(report, proxy_id=cluster.new("proxy"))
    await cluster.store.run(lambda unit: unit.proxies.report(other, [usage_of(deployment, 1)]))
    [total] = await cluster.store.read(lambda unit: unit.proxies.usage(deployment, since_minute=10))
    expect(total.requests == 4, "usage of another proxy is not added")
    none = await cluster.store.read(lambda unit: unit.proxies.usage(deployment, since_minute=11))
    expect(not none, "usage of other minutes is given")
    used = await cluster.store.read(lambda unit: unit.endpoint_tokens.used(deployment, since_minute=10))
    expect(used == {"key": 20}, f"the keys used {used}")


async def a_report_that_was_overtaken_brings_its_usage_only(cluster: StoredCluster) -> None:
    """Its acknowledgement would be that of an older table."""
    deployment = (await created(cluster)).deployment_id
    later = replace(report_of(cluster), number=5, version=9)
    await cluster.store.run(lambda unit: unit.proxies.report(later))
    for late in (replace(later, number=4, version=8), replace(later, incarnation=2, number=7, version=7)):
        await _reported(cluster, late, deployment, *range(1, late.number))
    live = await cluster.store.read(lambda unit: unit.proxies.live(since_ms=0))
    [found] = [one for one in live if one.proxy_id == later.proxy_id]
    expect((found.number, found.version, found.usage_sequence) == (5, 9, 6), f"the report is {found}")


async def proxies_are_forgotten(cluster: StoredCluster) -> None:
    """Those that last reported before a time."""
    report = report_of(cluster)
    await cluster.store.run(lambda unit: unit.proxies.report(report))
    await cluster.store.run(lambda unit: unit.proxies.expire(before_ms=0))
    live = await cluster.store.read(lambda unit: unit.proxies.live(since_ms=0))
    expect(report.proxy_id in [one.proxy_id for one in live], "a proxy was forgotten too early")


CHECKS: tuple[Check, ...] = (
    a_new_route_is_pending_and_not_published,
    a_route_takes_only_legal_moves,
    each_publication_has_the_next_version,
    tokens_are_published_with_the_table,
    the_last_report_of_a_proxy_is_kept,
    usage_is_ingested_once,
    a_report_that_was_overtaken_brings_its_usage_only,
    proxies_are_forgotten,
)
