"""Contract of `ports.repositories.catalog.Catalog`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import Queue, QueueState
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.domain.errors import Conflict, InvalidQueues, InvalidTopology, ObjectNotFound, StaleVersion
from sokovan.domain.ids import AccessKey, DeploymentId, QueueName, ScalingGroupName
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Role, User
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.ports.repositories.catalog import CatalogItem
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import BY_USER, StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


async def got(cluster: StoredCluster, kind: type[Any], name: str) -> Any:
    """One item."""
    return await cluster.store.read(lambda unit: unit.catalog.get(kind, name))


async def every(cluster: StoredCluster, kind: type[Any]) -> Sequence[Any]:
    """All items of a kind."""
    return await cluster.store.read(lambda unit: unit.catalog.all(kind))


async def counted(cluster: StoredCluster, kind: type[Any]) -> int:
    """The number of items of a kind."""
    return await cluster.store.read(lambda unit: unit.catalog.count(kind))


async def removed(cluster: StoredCluster, kind: type[Any], name: str) -> None:
    """Remove an item."""
    await cluster.store.run(lambda unit: unit.catalog.remove(kind, name))


def name_of(item: CatalogItem) -> str:
    """The name of an item; an image has one per architecture."""
    if isinstance(item, Keypair):
        return item.access_key
    return f"{item.name} {item.architecture}" if isinstance(item, Image) else item.name


def tenants(cluster: StoredCluster) -> list[CatalogItem]:
    """Owners with all fields, in an order in which they can be stored."""
    policy = ResourcePolicy(
        cluster.new("policy"),
        slots_max=SlotLimits({"cpu": 0, "mem": 2**50}),
        sessions_max=5,
        pending_sessions_max=6,
        pending_slots_max=SlotLimits({"cpu": 7}),
        kernels_per_session_max=8,
        slots_min=ResourceSlot({"mem": 1}),
        stored_pending_max=7,
        kernel_disk_max=2**40,
        priority_max=9,
    )
    domain = Domain(cluster.new("d"), policy.name)
    group = Group(cluster.new("g"), domain.name, policy.name)
    user = User(cluster.new("u"), domain.name, (group.name,), policy.name, Role.DOMAIN_ADMIN)
    keypair = Keypair(AccessKey(cluster.new("k")), user.name, policy.name, active=False)
    return [policy, domain, group, user, keypair]


def cluster_items(cluster: StoredCluster, agent: str) -> list[CatalogItem]:
    """All items that are not owners, with all fields."""
    parent = Queue(QueueName(cluster.new("q")), capability=SlotLimits({"cpu": 9}))
    rack = HyperNode(cluster.new("rack"), 1, (agent,), tier_name=None)
    row = HyperNode(cluster.new("row"), 2, (rack.name,), tier_name="row")
    return [
        ScalingGroup(
            ScalingGroupName(cluster.new("group")),
            scheduler="drf",
            scheduler_opts={"weights": {"cpu": 2}, "flags": [True, "x", 1]},
            known_slots=("cpu", "mem"),
            slot_priority=("mem",),
            pending_timeout_s=60,
            mem_per_gpu_bytes=64 << 30,
            mem_per_cpu_bytes=1,
            allow_best_effort=True,
            best_effort_per_agent_max=2,
        ),
        parent,
        Queue(
            QueueName(cluster.new("q")),
            weight=3,
            priority=-2,
            state=QueueState.CLOSED,
            parent=parent.name,
            reclaimable=False,
            capability=SlotLimits({"cpu": 8}),
            deserved=SlotLimits({"cpu": 4}),
            guarantee=ResourceSlot({"cpu": 2}),
        ),
        Topology((TierRule(1, "rack", "rack"), TierRule(2, "row")), (rack, row)),
        Booking(cluster.new("b"), 1, 2, hypernode="r1", users=("u",), groups=("g",), queues=("q",), release_unused_s=3),
        Image(cluster.new("python"), "aarch64", "sha256:" + "0" * 64, ResourceSlot({"mem": 1})),
    ]


async def an_item_is_read_as_it_was_put(cluster: StoredCluster) -> None:
    """All kinds, all fields."""
    agent = cluster.new("a")
    await cluster.agent(agent)
    items = [*tenants(cluster), *cluster_items(cluster, agent)]
    await cluster.put(*items)
    for item in items:
        expect(await got(cluster, type(item), name_of(item)) == item, f"{item} was changed in the store")
        expect(item in await every(cluster, type(item)), f"{item} is not listed")


async def an_item_of_the_same_name_is_replaced(cluster: StoredCluster) -> None:
    """Completely, and without affecting others."""
    name, other = cluster.new("policy"), ResourcePolicy(cluster.new("policy"), sessions_max=1)
    await cluster.put(ResourcePolicy(name, sessions_max=5, slots_max=SlotLimits({"cpu": 1})), other)
    await cluster.put(ResourcePolicy(name, priority_max=3))
    expect(await got(cluster, ResourcePolicy, name) == ResourcePolicy(name, priority_max=3), "it was not replaced")
    expect(await got(cluster, ResourcePolicy, other.name) == other, "another item was touched")


async def several_items_are_found_at_once(cluster: StoredCluster) -> None:
    """Of any kinds, in the requested order; None for missing ones."""
    agent = cluster.new("a")
    await cluster.agent(agent)
    items = [*tenants(cluster), *cluster_items(cluster, agent)]
    await cluster.put(*items)
    missing = (Queue, cluster.new("nobody"))
    requested: list[tuple[type[Any], str]] = [(type(item), name_of(item)) for item in items]
    found = await cluster.store.read(lambda unit: unit.catalog.find(missing, *requested, missing, requested[0]))
    expect(list(found) == [None, *items, None, items[0]], f"found were {found}")
    expect(not await cluster.store.read(lambda unit: unit.catalog.find()), "something was found for nothing")


async def images_of_several_architectures_coexist(cluster: StoredCluster) -> None:
    """One name, two items."""
    name = cluster.new("python")
    images = [Image(name, "aarch64"), Image(name, "x86_64")]
    await cluster.put(*images)
    found = [image for image in await every(cluster, Image) if image.name == name]
    expect(found == images, f"stored were {found}")


async def items_are_listed_by_name(cluster: StoredCluster) -> None:
    """In byte order."""
    prefix = cluster.new("x")
    names = [f"{prefix}{end}" for end in ("B", "a", "A", "-1", "_1", "10", "9")]
    await cluster.put(*[Domain(name) for name in names])
    found = [item.name for item in await every(cluster, Domain)]
    expect(found == sorted(found), "items are not listed by name")
    expect(set(names) <= set(found), "not every item is listed")


async def items_are_counted_by_kind(cluster: StoredCluster) -> None:
    """The number of items of a kind grows and shrinks with them."""
    first, second = ResourcePolicy(cluster.new("p")), ResourcePolicy(cluster.new("p"))
    before = await counted(cluster, ResourcePolicy)
    await cluster.put(first, second)
    expect(await counted(cluster, ResourcePolicy) == before + 2, "two more items are not counted")
    await removed(cluster, ResourcePolicy, first.name)
    expect(await counted(cluster, ResourcePolicy) == before + 1, "a removed item is counted")


async def a_missing_item_is_not_found(cluster: StoredCluster) -> None:
    """Neither to read nor to remove, of any kind."""
    kinds: list[type[Domain | Queue | Image]] = [Domain, Queue, Image]
    for kind in kinds:
        for missing in (cluster.new("x"), "", "a\0b"):
            await refusal(got(cluster, kind, missing), ObjectNotFound)
            await refusal(removed(cluster, kind, missing), ObjectNotFound)


async def references_of_an_item_must_exist(cluster: StoredCluster) -> None:
    """The refusal names the missing item, and nothing is stored."""
    policy, domain, group, user, keypair = tenants(cluster)
    await cluster.put(policy, domain, group, user, keypair)
    missing = cluster.new("x")
    wrong: list[CatalogItem] = [
        Domain(cluster.new("d"), missing),
        Group(cluster.new("g"), missing),
        Group(cluster.new("g"), name_of(domain), missing),
        User(cluster.new("u"), missing),
        User(cluster.new("u"), name_of(domain), (name_of(group), missing)),
        User(cluster.new("u"), name_of(domain), (), missing),
        Keypair(AccessKey(cluster.new("k")), missing),
        Keypair(AccessKey(cluster.new("k")), name_of(user), missing),
    ]
    for item in wrong:
        error = await refusal(cluster.put(item), ObjectNotFound)
        expect(missing in error.message, f"{item}: the refusal does not name what is missing")
        await refusal(got(cluster, type(item), name_of(item)), ObjectNotFound)


async def a_put_is_atomic(cluster: StoredCluster) -> None:
    """One invalid item refuses all."""
    good = Domain(cluster.new("d"))
    await refusal(cluster.put(good, Domain(cluster.new("d"), cluster.new("x"))), ObjectNotFound)
    await refusal(got(cluster, Domain, good.name), ObjectNotFound)


async def queues_form_a_tree(cluster: StoredCluster) -> None:
    """A missing parent and a cycle are refused; the order in a put is free."""
    parent, child = QueueName(cluster.new("q")), QueueName(cluster.new("q"))
    await refusal(cluster.put(Queue(child, parent=parent)), InvalidQueues)
    await cluster.put(Queue(child, parent=parent), Queue(parent))
    await refusal(cluster.put(Queue(parent, parent=child)), InvalidQueues)
    expect((await got(cluster, Queue, parent)).parent != child, "a circle was stored")


async def hypernodes_form_a_tree_over_the_agents(cluster: StoredCluster) -> None:
    """An unknown member, and one with two parents, are refused."""
    agent, rack, row = cluster.new("a"), cluster.new("rack"), cluster.new("row")
    await cluster.agent(agent)
    await refusal(cluster.put(Topology(hypernodes=(HyperNode(rack, 1, (cluster.new("a"),)),))), InvalidTopology)
    valid = Topology(hypernodes=(HyperNode(row, 2, (rack,)), HyperNode(rack, 1, (agent,))))
    await cluster.put(valid)
    second = HyperNode(cluster.new("rack"), 1, (agent,))
    await refusal(cluster.put(Topology(hypernodes=(*valid.hypernodes, second))), InvalidTopology)
    expect(await got(cluster, Topology, valid.name) == valid, "a tree that holds was not stored")


async def labels_of_operators_outlast_enrolments(cluster: StoredCluster) -> None:
    """They have precedence over the reported ones; a stale version is refused."""
    name = cluster.new("a")
    first = await cluster.agent(name, labels={"zone": "a", "rack": "r1"})

    async def label(version: int, **labels: str) -> None:
        await cluster.store.run(lambda unit: unit.catalog.set_labels(name, labels, version=version))

    await label(first.version, rack="r2", own="yes")
    await refusal(label(first.version), StaleVersion)
    record = await cluster.agent(name, labels={"zone": "b", "rack": "r1"})
    expect(record.info.labels == {"zone": "b", "rack": "r2", "own": "yes"}, f"its labels are {record.info.labels}")
    found = (record.reported_labels, record.operator_labels)
    expect(found == ({"zone": "b", "rack": "r1"}, {"rack": "r2", "own": "yes"}), f"kept apart are {found}")
    await label(record.version)
    left = await cluster.store.read(lambda unit: unit.fleet.get(record.info.agent_id))
    expect(left.info.labels == {"zone": "b", "rack": "r1"}, "without them, the reported ones do not hold")
    unknown = cluster.new("a")
    await refusal(cluster.store.run(lambda unit: unit.catalog.set_labels(unknown, {}, version=1)), StaleVersion)


async def an_unused_item_can_be_removed(cluster: StoredCluster) -> None:
    """In reverse order."""
    agent = cluster.new("a")
    await cluster.agent(agent)
    items = [*tenants(cluster), *cluster_items(cluster, agent)]
    await cluster.put(*items)
    for item in reversed(items):
        await removed(cluster, type(item), name_of(item))
        await refusal(got(cluster, type(item), name_of(item)), ObjectNotFound)


async def a_referenced_item_cannot_be_removed(cluster: StoredCluster) -> None:
    """Conflict while an item, session, agent or deployment refers to it."""
    agent = cluster.new("a")
    await cluster.agent(agent)
    owners, rest = tenants(cluster), cluster_items(cluster, agent)
    await cluster.put(*owners, *rest)
    needed = [*owners[:4], rest[1]]
    for item in needed:
        await refusal(removed(cluster, type(item), name_of(item)), Conflict)
        expect(await got(cluster, type(item), name_of(item)) == item, f"{item} is gone although it is in use")


async def a_scaling_group_in_use_cannot_be_removed(cluster: StoredCluster) -> None:
    """By agents, sessions or deployments, also ended ones."""
    groups = [ScalingGroupName(cluster.new("group")) for _ in range(3)]
    await cluster.put(*[ScalingGroup(name=group) for group in groups])
    await cluster.agent(cluster.new("a"), scaling_group=groups[0])
    await cluster.submit(cluster.new("s"), scaling_group=groups[1])
    name = cluster.new("d")
    spec = DeploymentSpec(deployment_id=DeploymentId(name), name=name, scaling_group=groups[2])
    await cluster.store.run(lambda unit: unit.deployments.create(spec, RevisionSpec(variant="vllm"), BY_USER))
    for group in groups:
        await refusal(removed(cluster, ScalingGroup, group), Conflict)


async def a_queue_with_live_sessions_cannot_be_removed(cluster: StoredCluster) -> None:
    """Afterwards it can."""
    queue, name = QueueName(cluster.new("q")), cluster.new("s")
    await cluster.put(Queue(queue))
    await cluster.submit(name, queue=queue)
    await refusal(removed(cluster, Queue, queue), Conflict)
    await cluster.stop(name)
    await removed(cluster, Queue, queue)


async def a_reference_can_be_changed(cluster: StoredCluster) -> None:
    """Then the former target can be removed."""
    policy, domain = ResourcePolicy(cluster.new("policy")), Domain(cluster.new("d"))
    await cluster.put(policy, replace(domain, policy=policy.name))
    await refusal(removed(cluster, ResourcePolicy, policy.name), Conflict)
    await cluster.put(domain)
    await removed(cluster, ResourcePolicy, policy.name)


async def items_of_a_kind_that_is_locked_are_changed_by_one_transaction_after_the_other(cluster: StoredCluster) -> None:
    """Two that count and then add one never both find the same number."""
    names = [cluster.new("b") for _ in range(6)]
    first = await counted(cluster, Booking)

    async def add(name: str) -> int:
        async def work(unit: Any) -> int:
            await unit.catalog.lock(Booking)
            found: int = await unit.catalog.count(Booking)
            await unit.catalog.put(Booking(name, 0, 10, agents=("a1",), users=("u",)))
            return found

        return await cluster.store.run(work)

    found = await asyncio.gather(*map(add, names))
    for name in names:
        await removed(cluster, Booking, name)
    expect(sorted(found) == [first + number for number in range(len(names))], f"each saw the one before: {found}")


CHECKS: tuple[Check, ...] = (
    items_of_a_kind_that_is_locked_are_changed_by_one_transaction_after_the_other,
    an_item_is_read_as_it_was_put,
    an_item_of_the_same_name_is_replaced,
    several_items_are_found_at_once,
    images_of_several_architectures_coexist,
    items_are_listed_by_name,
    items_are_counted_by_kind,
    a_missing_item_is_not_found,
    references_of_an_item_must_exist,
    a_put_is_atomic,
    queues_form_a_tree,
    hypernodes_form_a_tree_over_the_agents,
    labels_of_operators_outlast_enrolments,
    an_unused_item_can_be_removed,
    a_referenced_item_cannot_be_removed,
    a_scaling_group_in_use_cannot_be_removed,
    a_queue_with_live_sessions_cannot_be_removed,
    a_reference_can_be_changed,
)
