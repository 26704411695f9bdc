"""Retention: expired rows are removed, others are kept."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import retention
from sokovan.adapters.sql.schema.tables import COMMITS, REQUESTS, VERDICTS
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.owners.past_usage import UsageKey, UsageScope
from sokovan.domain.owners.tenancy import Domain, Group, Owner, User
from sokovan.ports.repositories.sessions import RequestKey
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import REQUESTS_KEPT_S, USAGE_KEPT_S, UnitOfWork
from sokovan.testing.clock import VirtualClock
from sokovan.testing.ledger_rows import add_past_usage
from sokovan.testing.stored_cluster import DEFAULT_GROUP, StoredCluster

KEY = RequestKey("u", "k", "digest")


async def count(cluster: StoredCluster, table: sa.Table) -> int:
    statement = sa.select(sa.func.count()).select_from(table)
    return int((await cluster.store.read(lambda unit: unit.transaction.fetch(statement)))[0][0])


async def test_the_key_of_a_request_is_free_again_after_a_week() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.submit("s1", request=KEY)
        await clock.advance(REQUESTS_KEPT_S - 1)
        await cluster.store.prune(older_than_s=60)
        assert (await cluster.submit("s2", request=KEY)).session_id == "s1"
        await clock.advance(2)
        await cluster.store.prune(older_than_s=60)
        assert await count(cluster, REQUESTS) == 0
        assert (await cluster.submit("s2", request=KEY)).session_id == "s2"


async def test_verdicts_go_with_the_waiting() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("s1", "s2"):
            await cluster.submit(name)
        verdicts = [StoredVerdict(SessionId(name), "c", "", "{}") for name in ("s1", "s2")]
        await cluster.store.run(lambda unit: unit.verdicts.put(verdicts))
        await cluster.stop("s1")
        assert await cluster.store.prune(older_than_s=60) == 1
        assert await count(cluster, VERDICTS) == 1
        assert await cluster.store.prune(older_than_s=60) == 0


async def names_with_usage(cluster: StoredCluster) -> set[str]:
    return {one.key.name for one in await cluster.store.read(lambda unit: unit.ledger.past_usage())}


async def test_past_usage_goes_a_week_after_its_owner() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        group, queue = Group("nlp", "default"), Queue(QueueName("research"))
        await cluster.put(Domain("default"), group, User("ada", "default"), User("bob", "default"), queue)
        for scope, name in (("user", "ada"), ("user", "bob"), ("group", "nlp"), ("queue", "research")):
            key = UsageKey(DEFAULT_GROUP, UsageScope(scope), name, "cpu")
            await add_past_usage(cluster.store, key, 1000)
        await clock.advance(USAGE_KEPT_S + 1)
        for kind, name in ((User, "ada"), (Group, "nlp"), (Queue, "research")):
            assert await names_with_usage(cluster) >= {name}
            await cluster.store.run(partial(remove, kind, name))
            await cluster.store.prune(older_than_s=60)
            assert name not in await names_with_usage(cluster)
        assert await names_with_usage(cluster) == {"bob"}


async def test_past_usage_of_an_owner_that_is_missing_stays_for_a_week_and_while_slots_are_held() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.agent("a")
        await cluster.submit("s", owner=Owner(user="gone"))
        await cluster.place("s", "a")
        await clock.advance(2 * USAGE_KEPT_S)
        await cluster.store.prune(older_than_s=60)
        assert "gone" in await names_with_usage(cluster)
        await cluster.stop("s", Goal.FORCE)
        await cluster.free("s", FreeProof.NEVER_SENT)
        await clock.advance(USAGE_KEPT_S - 1)
        await cluster.store.prune(older_than_s=60)
        assert "gone" in await names_with_usage(cluster)
        await clock.advance(2)
        await cluster.store.prune(older_than_s=60)
        assert "gone" not in await names_with_usage(cluster)


async def remove(kind: type[Any], name: str, unit: UnitOfWork) -> None:
    await unit.catalog.remove(kind, name)


async def test_much_is_forgotten_in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PRUNED_AT_ONCE", 3)
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        for number in range(10):
            await cluster.submit(f"s{number}", request=RequestKey("u", f"k{number}", "digest"))
        await clock.advance(REQUESTS_KEPT_S + 1)
        before = await count(cluster, COMMITS)
        assert await cluster.store.prune(older_than_s=3600) == before + 10
        # Each step of it was a unit of work, whose own mark stays.
        assert await count(cluster, COMMITS) == (before // 3 + 1) + (10 // 3 + 1) + 1 + 1


async def test_pruning_works_on_postgresql_too(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await cluster.submit("s1", request=KEY)
        old = sa.update(REQUESTS).values(at_ms=0)
        await cluster.store.run_sql(lambda unit: unit.transaction.execute(old))
        verdict = StoredVerdict(SessionId("s1"), "c", "", "{}")
        await cluster.store.run(lambda unit: unit.verdicts.put([verdict]))
        await cluster.stop("s1")
        assert await cluster.store.prune(older_than_s=3600) == 2
        assert [await count(cluster, table) for table in (REQUESTS, VERDICTS)] == [0, 0]
