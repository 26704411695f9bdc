"""Evictions come to an end: in a workload to which nothing is added, nobody is evicted for ever."""

from __future__ import annotations

from itertools import pairwise
from random import Random  # noqa: TID251  # seeded: the same draws on every run

import pytest

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import QueueName
from sokovan.domain.session import SessionType
from sokovan.domain.slots import SlotLimits
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP

pytestmark = pytest.mark.slow  # many cycles through the store per test

EVICTING = ["enqueue", "allocate", "preempt", "reclaim", "backfill"]
MIN_RUNTIME_S = 60
SETTLED_S, WATCHED_S, STEP_S = 900, 600, 15


async def evictions(cluster: OrchestratedCluster, names: list[str]) -> dict[str, list[int]]:
    """The times at which sessions were evicted."""
    return {name: [one.at_ms for one in (await cluster.session(name)).evictions] for name in names}


@pytest.mark.parametrize("seed", range(4))
async def test_sessions_that_never_end_are_evicted_a_few_times_and_then_no_more(
    cluster: OrchestratedCluster, seed: int
) -> None:
    drawn = Random(seed)  # noqa: S311  # a workload, not a secret
    queues = ("one", "two", "three")
    await cluster.stored.put(
        ScalingGroup(name=DEFAULT_GROUP, scheduler_opts={"actions": EVICTING, "queue_policy": "capacity"}),
        *(Queue(QueueName(one), deserved=SlotLimits({"cpu": 4000}), min_runtime_s=MIN_RUNTIME_S) for one in queues),
    )
    for number in range(3):
        await cluster.agent(f"a{number}", slots={"cpu": 4000})
    names = [f"s{number}" for number in range(12)]
    for name in names:
        kernels = drawn.choice((1, 1, 2, 3))
        await cluster.submit(
            name, queue=QueueName(drawn.choice(queues)), priority=drawn.choice((0, 0, 5)), kernels=kernels,
            min_kernels=drawn.randint(1, kernels), slots={"cpu": drawn.choice((1000, 2000))},
            session_type=SessionType.BATCH,
        )  # fmt: skip
        await cluster.pass_time(drawn.choice((0, STEP_S, 5 * STEP_S)), step_s=STEP_S)
    await cluster.pass_time(SETTLED_S, step_s=STEP_S)
    settled = await evictions(cluster, names)
    await cluster.pass_time(WATCHED_S, step_s=STEP_S)

    assert await evictions(cluster, names) == settled
    for times in settled.values():
        assert all(later - earlier >= MIN_RUNTIME_S * 1000 for earlier, later in pairwise(times))
