"""Which processor is usual in a scaling group."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.scaling_group import ScalingGroup
from sokovan.orchestrator.sessions.preparation.architectures import KEPT_S, UsualArchitectures
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster

ARM = "aarch64"


@pytest.fixture
async def cluster() -> AsyncIterator[StoredCluster]:
    async with StoredCluster.open(clock=VirtualClock()) as opened:
        yield opened


def usual(cluster: StoredCluster) -> UsualArchitectures:
    return UsualArchitectures(cluster.store, cluster.store.database.clock)


async def test_the_most_frequent_one_of_each_scaling_group_is_usual(cluster: StoredCluster) -> None:
    await cluster.put(ScalingGroup(ScalingGroupName("arms")))
    for name in ("a1", "a2"):
        await cluster.agent(name)
    await cluster.agent("a3", architecture=ARM)
    await cluster.agent("b1", architecture=ARM, scaling_group=ScalingGroupName("arms"))

    assert await usual(cluster).current() == {"default": "x86_64", "arms": ARM}


async def test_a_tie_is_broken_by_name(cluster: StoredCluster) -> None:
    await cluster.agent("a1")
    await cluster.agent("a2", architecture=ARM)

    assert await usual(cluster).current() == {"default": ARM}


async def test_the_first_agent_counts_at_once(cluster: StoredCluster) -> None:
    known = usual(cluster)
    assert await known.current() == {}

    await cluster.agent("a1", architecture=ARM)

    assert await known.current() == {"default": ARM}


async def test_what_was_read_is_kept_for_a_while(cluster: StoredCluster) -> None:
    known = usual(cluster)
    await cluster.agent("a1", architecture=ARM)
    await known.current()
    for name in ("a2", "a3"):
        await cluster.agent(name)

    assert await known.current() == {"default": ARM}
    await cluster.elapse(KEPT_S)
    assert await known.current() == {"default": "x86_64"}
