"""Contract of `ports.repositories.serving`: Deployments and Routes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from sokovan.domain.errors import Conflict, ForbiddenCause, IllegalTransition, InvalidSpec, ObjectNotFound, StaleVersion
from sokovan.domain.ids import AccessKey, AgentId, DeploymentId, KernelId, QueueName, RouteId, ScalingGroupName
from sokovan.domain.lifecycle.deployment import DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.route import RouteStatus, RouteTrigger
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import Change, DeploymentRecord, HistoryEntry, RouteRecord
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.health import Health
from sokovan.domain.serving.route import Endpoint, RouteSpec
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER, StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
_D, _R = DeploymentTrigger, RouteTrigger


def deployment_spec(cluster: StoredCluster) -> DeploymentSpec:
    """A deployment with all fields."""
    return DeploymentSpec(
        DeploymentId(cluster.new("d")),
        engine="vllm",
        model="meta/llama:70b",
        slots=ResourceSlot({"cuda.device": 4}),
        replicas_desired=2,
        owner=Owner("u", "g", "d", AccessKey("k")),
        queue=QueueName("q"),
        port=9000,
        health_path="/v1/health",
        environment={"näme": "' \" \\ %s :x"},
        revision=3,
    )


async def created(cluster: StoredCluster, spec: DeploymentSpec | None = None) -> DeploymentRecord:
    """A new deployment."""
    requested = spec or deployment_spec(cluster)
    return await cluster.store.run(lambda unit: unit.deployments.create(requested, BY_USER))


async def deployment_now(cluster: StoredCluster, name: str) -> DeploymentRecord:
    """The current record of a deployment."""
    return await cluster.store.read(lambda unit: unit.deployments.get(DeploymentId(name)))


async def scaled(cluster: StoredCluster, record: DeploymentRecord, replicas: int) -> DeploymentRecord:
    """Set another number of replicas."""
    return await cluster.store.run(lambda unit: unit.deployments.scale(record, replicas, BY_USER))


async def moved(
    cluster: StoredCluster, record: DeploymentRecord, trigger: DeploymentTrigger, change: Change = BY_COORDINATOR
) -> DeploymentRecord:
    """Move a deployment from the given record."""
    return await cluster.store.run(lambda unit: unit.deployments.move(record, trigger, change))


async def routed(cluster: StoredCluster, deployment: DeploymentId, *endpoints: Endpoint) -> RouteRecord:
    """A new route of a deployment."""
    spec = RouteSpec(RouteId(cluster.new("r")), deployment, endpoints)
    return await cluster.store.run(lambda unit: unit.routes.create(spec, BY_USER))


async def route_now(cluster: StoredCluster, name: str) -> RouteRecord:
    """The current record of a route."""
    return await cluster.store.read(lambda unit: unit.routes.get(RouteId(name)))


async def route_moved(
    cluster: StoredCluster, record: RouteRecord, trigger: RouteTrigger, change: Change = BY_COORDINATOR
) -> RouteRecord:
    """Move a route from the given record."""
    return await cluster.store.run(lambda unit: unit.routes.move(record, trigger, change))


async def replaced(cluster: StoredCluster, record: RouteRecord, endpoints: Sequence[Endpoint]) -> RouteRecord:
    """Replace the endpoints of a route."""
    return await cluster.store.run(lambda unit: unit.routes.set_endpoints(record, endpoints))


def endpoint(cluster: StoredCluster, *, port: int = 8000, agent: str = "") -> Endpoint:
    """A unique address, unless the agent is given."""
    agent_id = AgentId(agent or cluster.new("a"))
    return Endpoint(KernelId(cluster.new("k")), agent_id, port, health=Health.HEALTHY, weight=7)


def is_whole(entries: Sequence[HistoryEntry]) -> bool:
    """Whether a history is gapless and chained."""
    chained = all(one.after == two.before for one, two in pairwise(entries))
    return chained and [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))


async def a_new_deployment_is_pending_with_its_spec(cluster: StoredCluster) -> None:
    """All fields are stored."""
    spec = deployment_spec(cluster)
    record = await created(cluster, spec)
    expect((record.spec, record.status) == (spec, DeploymentStatus.PENDING), "it is not the requested deployment")
    expect(await deployment_now(cluster, spec.deployment_id) == record, "create gave another record than get")


async def a_deployment_needs_a_unique_name_and_a_scaling_group(cluster: StoredCluster) -> None:
    """Conflict, ObjectNotFound; nothing is stored or changed."""
    record = await created(cluster)
    await refusal(created(cluster, replace(record.spec, model="other")), Conflict)
    expect(await deployment_now(cluster, record.spec.deployment_id) == record, "the one that has the name was changed")
    astray = replace(deployment_spec(cluster), scaling_group=ScalingGroupName(cluster.new("group")))
    await refusal(created(cluster, astray), ObjectNotFound)
    await refusal(deployment_now(cluster, astray.deployment_id), ObjectNotFound)


async def scaling_writes_the_desired_replicas(cluster: StoredCluster) -> None:
    """In the spec; each change is a new version."""
    record = await created(cluster)
    for replicas in (5, 0, 0, 3):
        after = await scaled(cluster, record, replicas)
        expect(after.spec == replace(record.spec, replicas_desired=replicas), f"the spec is {after.spec}")
        expect((after.status, after.version) == (record.status, record.version + 1), "status or version is wrong")
        record = after
    await refusal(scaled(cluster, record, -1), InvalidSpec)


async def of_concurrent_scale_requests_one_succeeds(cluster: StoredCluster) -> None:
    """The others have a stale version."""
    record = await created(cluster)
    attempts = [scaled(cluster, record, replicas) for replicas in range(3, 7)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    lost = [result for result in results if isinstance(result, StaleVersion)]
    expect(len(lost) == 3, f"of four writers on one version {4 - len(lost)} won")
    [winner] = [result for result in results if isinstance(result, DeploymentRecord)]
    expect(await deployment_now(cluster, record.spec.deployment_id) == winner, "a writer that lost wrote")


async def a_deployment_takes_only_legal_moves(cluster: StoredCluster) -> None:
    """By permitted causes, on the current version."""
    first = await created(cluster)
    await refusal(moved(cluster, first, _D.REPLICAS_HEALTHY), IllegalTransition)
    await refusal(moved(cluster, first, _D.DELETE_REQUESTED), ForbiddenCause)
    second = await moved(cluster, first, _D.REPLICAS_REQUESTED)
    await refusal(moved(cluster, first, _D.REPLICAS_REQUESTED), StaleVersion)
    await refusal(scaled(cluster, first, 4), StaleVersion)
    running = await moved(cluster, second, _D.REPLICAS_HEALTHY)
    expect(running.status is DeploymentStatus.RUNNING, f"it is {running.status}")
    entries = await cluster.store.read(lambda unit: unit.deployments.history(first.spec.deployment_id))
    triggers = [entry.trigger for entry in entries]
    expect(triggers == ["created", "replicas_requested", "replicas_healthy"], f"the history is {triggers}")
    expect(is_whole(entries), "the history has a gap or is not chained")


async def an_ended_deployment_is_not_listed(cluster: StoredCluster) -> None:
    """Live ones are, by id; a final status is never left."""
    gone, stays = await created(cluster), await created(cluster)
    destroying = await moved(cluster, gone, _D.DELETE_REQUESTED, BY_USER)
    await refusal(scaled(cluster, destroying, 1), IllegalTransition)
    ended = await moved(cluster, destroying, _D.REPLICAS_GONE)
    for trigger in _D:
        await refusal(moved(cluster, ended, trigger, BY_USER), IllegalTransition)
    names = [one.spec.deployment_id for one in await cluster.store.read(lambda unit: unit.deployments.all())]
    expect(stays.spec.deployment_id in names and gone.spec.deployment_id not in names, "the list is wrong")
    expect(names == sorted(names), "deployments are not listed by id")
    expect(await deployment_now(cluster, gone.spec.deployment_id) == ended, "an ended deployment is gone")


async def a_missing_deployment_or_route_is_not_found(cluster: StoredCluster) -> None:
    """ObjectNotFound."""
    record = await created(cluster)
    stranger = replace(record, spec=deployment_spec(cluster))
    await refusal(deployment_now(cluster, stranger.spec.deployment_id), ObjectNotFound)
    await refusal(moved(cluster, stranger, _D.REPLICAS_REQUESTED), ObjectNotFound)
    await refusal(route_now(cluster, cluster.new("r")), ObjectNotFound)
    await refusal(routed(cluster, stranger.spec.deployment_id), ObjectNotFound)


async def a_new_route_is_pending_with_its_endpoints(cluster: StoredCluster) -> None:
    """All fields of all endpoints are stored."""
    deployment = (await created(cluster)).spec.deployment_id
    endpoints = [endpoint(cluster) for _ in range(3)]
    record = await routed(cluster, deployment, *endpoints)
    expect(set(record.spec.endpoints) == set(endpoints), "the endpoints are not the requested ones")
    expect((record.spec.deployment_id, record.status) == (deployment, RouteStatus.PENDING), "it is not new")
    expect(await route_now(cluster, record.spec.route_id) == record, "create gave another record than get")


async def a_route_needs_a_unique_name(cluster: StoredCluster) -> None:
    """Conflict; the existing one is unchanged."""
    deployment = (await created(cluster)).spec.deployment_id
    record = await routed(cluster, deployment, endpoint(cluster))
    again = RouteSpec(record.spec.route_id, deployment, (endpoint(cluster),))
    await refusal(cluster.store.run(lambda unit: unit.routes.create(again, BY_USER)), Conflict)
    expect(await route_now(cluster, record.spec.route_id) == record, "the one that has the name was changed")


async def routes_are_listed_by_deployment(cluster: StoredCluster) -> None:
    """By id, each with its own endpoints."""
    first, second = (await created(cluster)).spec.deployment_id, (await created(cluster)).spec.deployment_id
    records = [await routed(cluster, first, endpoint(cluster)) for _ in range(3)]
    await routed(cluster, second, endpoint(cluster))
    found = await cluster.store.read(lambda unit: unit.routes.of_deployment(first))
    expect(list(found) == sorted(records, key=lambda one: one.spec.route_id), "the routes of a deployment are wrong")


async def endpoints_are_replaced_as_a_whole(cluster: StoredCluster) -> None:
    """With a new version; a stale writer fails."""
    deployment = (await created(cluster)).spec.deployment_id
    kept = endpoint(cluster)
    first = await routed(cluster, deployment, kept, endpoint(cluster))
    new = [replace(kept, health=Health.UNHEALTHY), endpoint(cluster)]
    second = await replaced(cluster, first, new)
    expect(set(second.spec.endpoints) == set(new), "the endpoints are not the new ones")
    expect((second.status, second.version) == (first.status, first.version + 1), "status or version is wrong")
    await refusal(replaced(cluster, first, []), StaleVersion)
    await refusal(route_moved(cluster, first, _R.CONFIGURED), StaleVersion)
    third = await replaced(cluster, second, [])
    expect(third.spec.endpoints == (), "endpoints were left")


async def an_address_belongs_to_one_route(cluster: StoredCluster) -> None:
    """Conflict for another; it can be reused when it is free."""
    deployment = (await created(cluster)).spec.deployment_id
    address = endpoint(cluster)
    first, second = await routed(cluster, deployment, address), await routed(cluster, deployment)
    claim = replace(address, kernel_id=KernelId(cluster.new("k")))
    await refusal(replaced(cluster, second, [claim]), Conflict)
    await refusal(routed(cluster, deployment, claim), Conflict)
    expect(await route_now(cluster, second.spec.route_id) == second, "a refused claim changed the route")
    await replaced(cluster, first, [])
    taken = await replaced(cluster, second, [claim])
    expect(taken.spec.endpoints == (claim,), "an address that is free was not given")


async def one_address_twice_in_a_route_is_refused(cluster: StoredCluster) -> None:
    """Before anything is written."""
    deployment = (await created(cluster)).spec.deployment_id
    record = await routed(cluster, deployment, endpoint(cluster))
    agent = cluster.new("a")
    await refusal(replaced(cluster, record, [endpoint(cluster, agent=agent) for _ in range(2)]), InvalidSpec)
    expect(await route_now(cluster, record.spec.route_id) == record, "a refused replacement changed the route")


async def a_route_takes_only_legal_moves(cluster: StoredCluster) -> None:
    """It recovers from an error, but not from its end."""
    record = await routed(cluster, (await created(cluster)).spec.deployment_id)
    await refusal(route_moved(cluster, record, _R.ENDPOINT_HEALTHY), IllegalTransition)
    await refusal(route_moved(cluster, record, _R.CONFIGURED, BY_USER), ForbiddenCause)
    steps = (_R.CONFIGURED, _R.HEALTH_FAILED, _R.ENDPOINT_HEALTHY, _R.ENDPOINTS_CHANGED, _R.DELETE_REQUESTED, _R.FORCED)
    for trigger in steps:
        record = await route_moved(cluster, record, trigger)
    expect(record.status is RouteStatus.TERMINATED, f"it is {record.status}")
    for trigger in _R:
        await refusal(route_moved(cluster, record, trigger), IllegalTransition)
    entries = await cluster.store.read(lambda unit: unit.routes.history(record.spec.route_id))
    triggers = [entry.trigger for entry in entries]
    expect(triggers == ["created", *(trigger.value for trigger in steps)], f"the history is {triggers}")
    expect(is_whole(entries), "the history has a gap or is not chained")


async def an_ended_route_releases_its_addresses(cluster: StoredCluster) -> None:
    """Another route may use them."""
    deployment = (await created(cluster)).spec.deployment_id
    address = endpoint(cluster)
    record = await routed(cluster, deployment, address)
    await refusal(routed(cluster, deployment, address), Conflict)
    for trigger in (_R.CONFIGURED, _R.DELETE_REQUESTED, _R.FORCED):
        record = await route_moved(cluster, record, trigger)
    expect(record.spec.endpoints == (), f"it still has {record.spec.endpoints}")
    later = await routed(cluster, deployment, address)
    expect(later.spec.endpoints == (address,), "the address is not the new route's")


CHECKS: tuple[Check, ...] = (
    a_new_deployment_is_pending_with_its_spec,
    a_deployment_needs_a_unique_name_and_a_scaling_group,
    scaling_writes_the_desired_replicas,
    of_concurrent_scale_requests_one_succeeds,
    a_deployment_takes_only_legal_moves,
    an_ended_deployment_is_not_listed,
    a_missing_deployment_or_route_is_not_found,
    a_new_route_is_pending_with_its_endpoints,
    a_route_needs_a_unique_name,
    routes_are_listed_by_deployment,
    endpoints_are_replaced_as_a_whole,
    an_address_belongs_to_one_route,
    one_address_twice_in_a_route_is_refused,
    a_route_takes_only_legal_moves,
    an_ended_route_releases_its_addresses,
)
