"""The tables of catalog items, and how readers detect a change."""

from typing import Any, get_args

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.repositories.catalog import CATALOG_TABLES
from sokovan.adapters.sql.schema.tables import CATALOG_MARKS, POLICIES
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import AccessKey, QueueName, ScalingGroupName
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, User
from sokovan.ports.repositories.catalog import CatalogItem
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster


def test_every_kind_of_item_has_its_table() -> None:
    assert set(CATALOG_TABLES) == set(get_args(CatalogItem))
    assert len({entry.table.name for entry in CATALOG_TABLES.values()}) == len(CATALOG_TABLES)
    for entry in CATALOG_TABLES.values():
        assert {field for field, _, _ in entry.refers} <= set(entry.table.c.keys())


async def marks(cluster: StoredCluster) -> dict[str, int]:
    rows = await cluster.store.read(lambda unit: unit.transaction.fetch(sa.select(CATALOG_MARKS)))
    return {row.kind: row.stamp for row in rows}


async def test_a_change_marks_its_own_table_only() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.put(Domain("d"), Image("python"))
        before = await marks(cluster)
        await cluster.put(Domain("e"))
        after = await marks(cluster)
        assert {kind for kind in after if after[kind] != before.get(kind)} == {"domains"}
        await cluster.store.run(lambda unit: unit.catalog.remove(Image, "python x86_64"))
        assert (await marks(cluster))["images"] > before["images"]


async def test_a_policy_remembers_when_it_last_changed() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.put(ResourcePolicy("p"))
        first = await changed_ms(cluster)
        await clock.advance(5)
        await cluster.put(Domain("d"))
        assert await changed_ms(cluster) == first
        await cluster.put(ResourcePolicy("p", sessions_max=1))
        assert await changed_ms(cluster) == first + 5_000


async def changed_ms(cluster: StoredCluster) -> int:
    [row] = await cluster.store.read(lambda unit: unit.transaction.fetch(sa.select(POLICIES.c.changed_ms)))
    return int(row.changed_ms)


async def test_what_refers_to_an_item_that_is_to_go_is_named() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.put(Domain("d"), User("ada", "d"), Keypair(AccessKey("AK1"), "ada"))
        with pytest.raises(Conflict, match="user 'ada' is in use by key AK1"):
            await cluster.store.run(lambda unit: unit.catalog.remove(User, "ada"))
        with pytest.raises(Conflict, match="domain 'd' is in use by user ada"):
            await cluster.store.run(lambda unit: unit.catalog.remove(Domain, "d"))


async def test_an_owner_and_a_queue_that_a_scaling_group_names_stay() -> None:
    async with StoredCluster.open() as cluster:
        owned = ("domain:d", "group:g", "user:ada", "keypair:AK1")
        await cluster.put(Domain("d"), Group("g", "d"), User("ada", "d"), Keypair(AccessKey("AK1"), "ada"))
        await cluster.put(Queue(QueueName("q")))
        await cluster.put(ScalingGroup(ScalingGroupName("lab"), assigned_to=owned, default_queue=QueueName("q")))
        for kind, name in ((Keypair, "AK1"), (Group, "g"), (Queue, "q")):

            async def work(unit: UnitOfWork, kind: Any = kind, name: str = name) -> None:
                await unit.catalog.remove(kind, name)

            with pytest.raises(Conflict, match=f"'{name}' is in use by scaling group lab"):
                await cluster.store.run(work)
