"""A fresh store becomes usable; a used one stays as its administrator left it."""

from __future__ import annotations

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.api.access.authentication import token_digest
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import AccessKey, QueueName
from sokovan.domain.owners.tenancy import Role, User
from sokovan.entrypoints.embedded.bootstrap import ADMIN, admin_key, bootstrap
from sokovan.testing.stored_cluster import StoredCluster

PEPPER = b"p" * 32
IDS = SortableIds(SystemClock())


async def test_a_fresh_store_gets_an_administrator_who_can_log_in() -> None:
    async with StoredCluster.open() as cluster:
        await bootstrap(cluster.store)
        key = await admin_key(cluster.store, None, ids=IDS, pepper=PEPPER)
        found = await cluster.store.read(lambda unit: unit.credentials.find(token_digest(key.token, PEPPER)))
        assert key.fresh
        assert found is not None
        assert (found.user.name, found.user.role) == (ADMIN, Role.ADMIN)


async def test_a_second_start_keeps_the_key() -> None:
    async with StoredCluster.open() as cluster:
        await bootstrap(cluster.store)
        first = await admin_key(cluster.store, None, ids=IDS, pepper=PEPPER)
        await bootstrap(cluster.store)
        second = await admin_key(cluster.store, first.token, ids=IDS, pepper=PEPPER)
        assert (second.token, second.fresh) == (first.token, False)


async def test_a_key_that_opens_nothing_any_more_is_replaced() -> None:
    async with StoredCluster.open() as cluster:
        await bootstrap(cluster.store)
        first = await admin_key(cluster.store, None, ids=IDS, pepper=PEPPER)
        access_key = AccessKey(first.token.removeprefix("sk-").partition(".")[0])
        await cluster.store.run(lambda unit: unit.credentials.remove([access_key]))
        second = await admin_key(cluster.store, first.token, ids=IDS, pepper=PEPPER)
        assert second.fresh
        assert second.token != first.token


async def test_what_an_administrator_changed_stays_changed() -> None:
    async with StoredCluster.open() as cluster:
        await bootstrap(cluster.store)
        await cluster.put(Queue(QueueName("default"), weight=7))
        await bootstrap(cluster.store)
        queue = await cluster.store.read(lambda unit: unit.catalog.get(Queue, "default"))
        user = await cluster.store.read(lambda unit: unit.catalog.get(User, ADMIN))
        assert queue.weight == 7
        assert user.groups == ("default",)
