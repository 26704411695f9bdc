"""Fair share through the store: usage is recorded, fades, and orders sessions."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AccessKey, ScalingGroupName
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners.past_usage import UsageKey, UsageScope
from sokovan.domain.owners.tenancy import Domain, Owner, User
from sokovan.testing.ledger_rows import add_past_usage
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from tests.scenario.evicting import AT_ONCE, PREEMPTING

pytestmark = pytest.mark.slow  # many cycles through the store per test

ADA = Owner(user="ada", access_key=AccessKey("ada"))
BOB = Owner(user="bob", access_key=AccessKey("bob"))
EVE = Owner(user="eve", access_key=AccessKey("eve"))
ONE_CPU = {"cpu": 1000}
HALF_LIFE_S = 600


async def a_busy_pool(cluster: OrchestratedCluster) -> None:
    """One agent under fair share, with room for one session at a time."""
    group = ScalingGroup(ScalingGroupName("default"), scheduler="fair-share", usage_half_life_s=HALF_LIFE_S)
    await cluster.stored.put(group)
    await cluster.agent("a", slots=ONE_CPU)


async def used(cluster: OrchestratedCluster, name: str, owner: Owner, seconds: float) -> None:
    """Let a session run for this long and end."""
    await cluster.submit(name, slots=ONE_CPU, owner=owner)
    await cluster.settle()
    await cluster.pass_time(seconds, step_s=20)
    await ended(cluster, name)


async def ended(cluster: OrchestratedCluster, name: str) -> None:
    """Stop a session and wait until its slots are free."""
    await cluster.stop(name)
    await cluster.settle()
    await cluster.pass_time(3)


async def first_of(cluster: OrchestratedCluster, *waiting: tuple[str, Owner]) -> str:
    """The session that starts first, of those that wait for one that is running."""
    await cluster.submit("busy", slots=ONE_CPU, owner=EVE)
    await cluster.settle()
    for name, owner in waiting:
        await cluster.submit(name, slots=ONE_CPU, owner=owner)
    await cluster.settle()
    await ended(cluster, "busy")
    records = [await cluster.stored.session(name) for name, _ in waiting]
    running = [record.session_id for record in records if record.status is not SessionStatus.PENDING]
    assert len(running) == 1, [record.status for record in records]
    return running[0]


async def test_the_user_who_used_less_starts_first_although_it_came_later() -> None:
    async with OrchestratedCluster.open() as cluster:
        await a_busy_pool(cluster)
        await used(cluster, "long", ADA, 200)
        await used(cluster, "short", BOB, 40)
        assert await first_of(cluster, ("adas", ADA), ("bobs", BOB)) == "bobs"


async def test_old_usage_fades_until_new_usage_counts_more() -> None:
    async with OrchestratedCluster.open() as cluster:
        await a_busy_pool(cluster)
        await used(cluster, "long", ADA, 200)
        await cluster.pass_time(4 * HALF_LIFE_S, step_s=20)
        await used(cluster, "short", BOB, 40)
        assert await first_of(cluster, ("bobs", BOB), ("adas", ADA)) == "adas"


async def test_a_session_that_still_runs_counts_for_the_time_until_now() -> None:
    async with OrchestratedCluster.open() as cluster:
        await a_busy_pool(cluster)
        await cluster.agent("b", slots=ONE_CPU)
        await cluster.submit("endless", slots=ONE_CPU, owner=ADA)
        await cluster.settle()
        await used(cluster, "short", BOB, 60)
        assert await first_of(cluster, ("adas", ADA), ("bobs", BOB)) == "bobs"


async def test_a_weight_entitles_to_more_usage() -> None:
    async with OrchestratedCluster.open() as cluster:
        await a_busy_pool(cluster)
        await cluster.stored.put(Domain("default"), User("ada", "default", weight=10))
        await used(cluster, "long", ADA, 200)
        await used(cluster, "short", BOB, 40)
        assert await first_of(cluster, ("bobs", BOB), ("adas", ADA)) == "adas"


async def test_work_that_an_eviction_lost_is_taken_off_the_usage_again() -> None:
    async with OrchestratedCluster.open() as cluster:
        await cluster.stored.put(PREEMPTING, AT_ONCE)
        await cluster.agent("a", slots=ONE_CPU)
        await cluster.submit("low", slots=ONE_CPU, owner=ADA)
        await cluster.settle()
        await cluster.pass_time(100, step_s=20)
        await cluster.submit("high", slots=ONE_CPU, owner=BOB, priority=5)
        await cluster.settle()
        [receipt] = (await cluster.session("low")).evictions
        assert receipt.lost_s >= 100
        await cluster.pass_time(30, step_s=10)
        rows = await cluster.store.read(lambda unit: unit.ledger.past_usage())
        # One core: what was held, less what the receipt says, is left; the history says the same.
        lines = await cluster.history("low", kernels=True)
        begun = min(one.at_ms for one in lines if one.trigger == "allocated")
        held_ms = (receipt.ended_ms or 0) - begun
        [left] = [row.amount for row in rows if row.key.slot == "cpu" and row.key.name == "ada"]
        assert abs(held_ms - receipt.lost_s * 1000 - left) <= 1000
        [told] = [one.change.detail for one in await cluster.history("high") if one.change.code == "room-freed"]
        assert f"{receipt.lost_s} slot seconds of its work" in told


async def test_work_that_users_evict_themselves_still_counts() -> None:
    async with OrchestratedCluster.open() as cluster:
        await cluster.stored.put(PREEMPTING, AT_ONCE)
        await cluster.agent("a", slots=ONE_CPU)
        await cluster.submit("low", slots=ONE_CPU, owner=ADA)
        await cluster.settle()
        await cluster.pass_time(100, step_s=20)
        await cluster.submit("high", slots=ONE_CPU, owner=ADA, priority=5)
        await cluster.settle()
        assert (await cluster.session("low")).evictions[0].lost_s >= 100
        rows = await cluster.store.read(lambda unit: unit.ledger.past_usage())
        amounts = {row.key.name: row.amount for row in rows if row.key.scope is UsageScope.USER}
        assert amounts["ada"] > 99_000, "core milliseconds, which decay"


async def test_usage_in_another_scaling_group_does_not_count() -> None:
    async with OrchestratedCluster.open() as cluster:
        await a_busy_pool(cluster)
        await cluster.stored.put(ScalingGroup(ScalingGroupName("other")))
        key = UsageKey("other", UsageScope.USER, "bob", "cpu")
        await add_past_usage(cluster.store, key, 10**9)
        await used(cluster, "short", ADA, 40)
        assert await first_of(cluster, ("adas", ADA), ("bobs", BOB)) == "bobs"
