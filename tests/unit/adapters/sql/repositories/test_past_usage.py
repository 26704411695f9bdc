"""Rows of past usage: brought up to date in few statements."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql.repositories.past_usage import updated_usage
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.owners.past_usage import USAGE_MAX, UsageChange, UsageKey, UsageScope
from sokovan.testing.clock import VirtualClock
from sokovan.testing.ledger_rows import add_past_usage
from sokovan.testing.stored_cluster import BY_COORDINATOR, DEFAULT_GROUP, StoredCluster, assignment
from tests.unit.adapters.sql.statements import recorded_statements

KEY = UsageKey(DEFAULT_GROUP, UsageScope.USER, "ada", "cuda.device")


async def adjusted(cluster: StoredCluster, amount: int, key: UsageKey = KEY) -> int:
    """Add to past usage; returns the new amount."""
    await add_past_usage(cluster.store, key, amount)
    return {row.key: row.amount for row in await cluster.store.read(lambda unit: unit.ledger.past_usage())}[key]


async def test_usage_halves_in_the_half_life_of_its_scaling_group() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.put(ScalingGroup(DEFAULT_GROUP, usage_half_life_s=100))
        await cluster.put(ScalingGroup(ScalingGroupName("slow")))
        slow = KEY._replace(scaling_group="slow")
        for key in (KEY, slow):
            await adjusted(cluster, 8000, key)
        await clock.advance(200)
        assert await adjusted(cluster, 0) == 2000
        assert await adjusted(cluster, 0, slow) == 7998


async def test_an_amount_is_added_and_a_negative_one_takes_at_most_what_is_left() -> None:
    async with StoredCluster.open(clock=VirtualClock()) as cluster:
        assert [await adjusted(cluster, amount) for amount in (5000, -2000, -9000)] == [5000, 3000, 0]


async def test_an_amount_stays_within_its_bound() -> None:
    async with StoredCluster.open() as cluster:
        assert await adjusted(cluster, USAGE_MAX) == USAGE_MAX
        assert USAGE_MAX - 2**40 < await adjusted(cluster, 5000) <= USAGE_MAX


async def test_a_row_that_is_newer_than_the_transaction_does_not_go_back_in_time() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await adjusted(cluster, 10)

        async def earlier(unit: SqlUnitOfWork) -> tuple[str | int, ...]:
            now = unit.transaction.now_ms
            unit.transaction.now_ms = now - 5_000
            (row,) = await updated_usage(unit.transaction, {KEY: UsageChange(added=1)})
            return (*row, now)

        *_, amount, held, at_ms, now = await cluster.store.run_sql(earlier)
        assert (amount, held, at_ms) == (11, 0, now)


@pytest.mark.slow
@pytest.mark.parametrize("sessions", [1, 40])
async def test_recording_takes_three_statements_however_many_sessions_are_freed(sessions: int) -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a", slots={"cpu": 100_000, "mem": 100 << 30})
        names = [f"s{number}" for number in range(sessions)]
        for name in names:
            await cluster.submit(name)
        await cluster.place_all([assignment(name, "a") for name in names])
        for name in names:
            await cluster.stop(name)
        kernels = [kernel for name in names for kernel in (await cluster.session(name)).kernels]
        with recorded_statements(cluster) as seen:
            await cluster.store.run(lambda unit: unit.ledger.free(kernels, FreeProof.NEVER_SENT, BY_COORDINATOR))
        assert len([text for text in seen if "past_usage" in text]) == 2
        assert len([text for text in seen if "scaling_groups" in text]) == 1
