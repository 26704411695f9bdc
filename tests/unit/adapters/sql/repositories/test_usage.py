"""Amounts with a sign: added up, written conditionally, and counted."""

from types import SimpleNamespace

import pytest

from sokovan.adapters.sql.repositories.usage import LedgerMismatch, UsageDelta, apply_delta, read_owners, scopes_of
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.owners.past_usage import UsageChange, UsageKey, UsageScope
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.stored_cluster import StoredCluster

_COMMON = {"group": "g", "domain": "d", "scaling_group": "default", "queue": "q", "session_type": "batch"}
ROW = SimpleNamespace(access_key="k", user="u", **_COMMON)


def test_the_four_scopes_of_an_owner_are_named() -> None:
    assert scopes_of(ROW) == (("keypair", "k"), ("user", "u"), ("group", "g"), ("domain", "d"))


def test_amounts_add_up_by_agent_and_by_owner() -> None:
    delta = UsageDelta()
    for sign in (1, 1, -1):
        delta.add_kernel("a1", ResourceSlot({"cpu": 3}), sign=sign)
        delta.add_owner(ROW, {"cpu": 3}, sign=sign)
    assert delta.kernels == {"a1": 1}
    assert delta.slots == {("a1", "cpu"): 3}
    assert delta.owners() == {(scope, name, "cpu"): 3 for scope, name in scopes_of(ROW)}
    named = ((UsageScope.USER, "u"), (UsageScope.GROUP, "g"), (UsageScope.QUEUE, "q"))
    assert delta.past() == {UsageKey("default", scope, name, "cpu"): UsageChange(3) for scope, name in named}
    for since_ms in (10, 10, 20):
        delta.add_lost(ROW, {"cpu": 3}, since_ms=since_ms)
    lost = UsageChange(3, lost=((6, 10), (3, 20)))
    assert delta.past() == {UsageKey("default", scope, name, "cpu"): lost for scope, name in named}


def test_owners_that_share_a_scope_count_there_together() -> None:
    delta = UsageDelta()
    other = SimpleNamespace(access_key="k2", user="u2", **_COMMON)
    for row in (ROW, other):
        delta.add_owner(row, {"cpu": 1}, sign=1)
    counted = delta.owners()
    assert counted["domain", "d", "cpu"] == 2
    assert counted["user", "u2", "cpu"] == 1


async def applied(cluster: StoredCluster, delta: UsageDelta, **incarnations: int) -> dict[tuple[str, str, str], int]:
    async def work(unit: SqlUnitOfWork) -> dict[tuple[str, str, str], int]:
        return await apply_delta(unit.transaction, delta, incarnations=incarnations)

    return await cluster.store.run_sql(work)


def taking(cpu: int) -> UsageDelta:
    delta = UsageDelta()
    delta.add_kernel("a1", ResourceSlot({"cpu": abs(cpu)}), sign=1 if cpu > 0 else -1)
    delta.add_owner(ROW, {"cpu": abs(cpu)}, sign=1 if cpu > 0 else -1)
    return delta


async def test_usage_is_added_and_subtracted_and_never_clamped() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={"cpu": 10})
        used = await applied(cluster, taking(4), a1=1)
        assert used["user", "u", "cpu"] == 4
        assert (await applied(cluster, taking(6), a1=1))["user", "u", "cpu"] == 10
        with pytest.raises(LedgerMismatch, match="slots"):
            await applied(cluster, taking(1), a1=1)
        assert await applied(cluster, taking(-10)) == {}
        with pytest.raises(LedgerMismatch):
            await applied(cluster, taking(-1))


@pytest.mark.parametrize("incarnation", [2, 0], ids=["of an unknown incarnation", "of an agent that was not locked"])
async def test_kernels_are_added_to_the_incarnation_that_was_locked_only(incarnation: int) -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        with pytest.raises(LedgerMismatch, match="agents"):
            await applied(cluster, taking(1), a1=incarnation)


async def test_an_owner_that_uses_less_than_is_freed_is_a_mismatch() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await applied(cluster, taking(4), a1=1)
        more = UsageDelta()
        more.add_owner(ROW, {"cpu": 5}, sign=-1)
        with pytest.raises(LedgerMismatch, match="owners"):
            await applied(cluster, more)


async def test_devices_are_counted_too() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        delta = UsageDelta()
        delta.devices["a1", "gpu0"] = 2
        with pytest.raises(LedgerMismatch, match="devices"):
            await applied(cluster, delta)


async def test_owners_that_never_used_anything_have_no_row() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await applied(cluster, taking(4), a1=1)

        async def work(unit: SqlUnitOfWork) -> dict[tuple[str, str, str], int]:
            return await read_owners(unit.transaction, [("user", "u", "cpu"), ("user", "nobody", "cpu")])

        assert await cluster.store.run_sql(work) == {("user", "u", "cpu"): 4}


async def test_more_and_less_in_one_step_leave_what_remains(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await cluster.agent("a1")
        await applied(cluster, taking(4), a1=1)
        delta = taking(-4)
        other = SimpleNamespace(access_key="k2", user="u2", **_COMMON)
        delta.add_owner(other, {"cpu": 7}, sign=1)
        used = await applied(cluster, delta)
        assert used["user", "u2", "cpu"] == 7
        assert used["domain", "d", "cpu"] == 7
