"""Recorded usage equals a recomputation from the whole ledger, whatever happened."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.sql.schema.tables import HELD_SLOTS, KERNELS, SESSIONS
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import QueueName, ScalingGroupName
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners.past_usage import ONE, UsageKey, UsageScope, value_after
from sokovan.domain.owners.tenancy import Owner
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster
from tests.quick import at_most
from tests.reference.usage import HeldInterval, usage_of

HALF_LIFE_S = 50
POOLS = ("default", "other")
# A step starts a session (of a user, in a pool, with kernels), ends the oldest, or lets time pass.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["ada", "bob"]), st.sampled_from(POOLS), st.integers(1, 3)),
        st.just("end"),
        st.floats(0.001, 120),
    ),
    max_size=25,
)


async def ledger(unit: SqlUnitOfWork) -> tuple[list[HeldInterval], int]:
    """Every row of the ledger with its owners, and the time."""
    joined = HELD_SLOTS.join(KERNELS, KERNELS.c.kernel_id == HELD_SLOTS.c.kernel_id).join(
        SESSIONS, SESSIONS.c.session_id == KERNELS.c.session_id
    )
    columns = [SESSIONS.c[name] for name in ("scaling_group", "user", "group", "queue")]
    found = []
    for row in await unit.transaction.fetch(sa.select(HELD_SLOTS, *columns).select_from(joined)):
        named = ((scope, getattr(row, scope.value)) for scope in UsageScope)
        keys = tuple(UsageKey(row.scaling_group, scope, name, row.slot) for scope, name in named)
        found.append(HeldInterval(keys, row.amount, row.held_ms, row.freed_ms))
    return found, unit.now_ms


async def lived(steps: list[tuple[str, str, int] | str | float]) -> None:
    """Run the steps on a new store, and compare."""
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.put(*[ScalingGroup(ScalingGroupName(pool), usage_half_life_s=HALF_LIFE_S) for pool in POOLS])
        await cluster.put(Queue(QueueName("default")))
        for pool in POOLS:
            await cluster.agent(pool, scaling_group=ScalingGroupName(pool), slots={"cpu": 90_000, "mem": 90 << 30})
        live: list[str] = []
        for number, step in enumerate(steps):
            if isinstance(step, float):
                await clock.advance(step)
            elif not isinstance(step, str):
                user, pool, kernels = step
                await cluster.submit(f"s{number}", kernels=kernels, owner=Owner(user), scaling_group=pool)
                await cluster.place(f"s{number}", *[pool] * kernels)
                live.append(f"s{number}")
            elif live:
                await cluster.stop(live[0])
                ended = await cluster.free(live.pop(0), FreeProof.NEVER_SENT)
                assert ended.status is SessionStatus.TERMINATED
        await compared(cluster, updates=len(steps))


async def compared(cluster: StoredCluster, *, updates: int) -> None:
    """The stored rows are worth what the ledger says; each update may round by half."""
    intervals, now_ms = await cluster.store.run_sql(ledger)
    expected = usage_of(intervals, now_ms=now_ms, half_life_ms=HALF_LIFE_S * 1000)
    rows = await cluster.store.read(lambda unit: unit.ledger.past_usage())
    assert {row.key for row in rows} == set(expected)
    for row in rows:
        age_ms = now_ms - row.at_ms
        value = value_after(row.amount, row.held, row.key.slot, age_ms=age_ms, half_life_ms=HALF_LIFE_S * 1000)
        assert abs(Fraction(value, ONE) - expected[row.key]) <= updates


@pytest.mark.slow
@at_most(25)
@given(STEPS)
def test_recorded_usage_is_that_of_the_whole_ledger(steps: list[tuple[str, str, int] | str | float]) -> None:
    asyncio.run(lived(steps))
