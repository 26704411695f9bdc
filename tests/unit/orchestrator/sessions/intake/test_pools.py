"""Caches the usual architecture and the slots of the agents of each scaling group."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.session_request import SessionRequest
from sokovan.orchestrator.sessions.intake.pools import KEPT_S, ROOM_KEPT_S, PoolCache
from sokovan.ports.repositories.agents import SlotRoom
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster

ARM = "aarch64"


@pytest.fixture
async def cluster() -> AsyncIterator[StoredCluster]:
    async with StoredCluster.open(clock=VirtualClock()) as opened:
        yield opened


def pools(cluster: StoredCluster) -> PoolCache:
    return PoolCache(cluster.store, cluster.store.database.clock)


async def usual(known: PoolCache) -> dict[str, str]:
    return {group: pool.architecture for group, pool in (await known.current()).items()}


async def test_the_most_frequent_one_of_each_scaling_group_is_usual(cluster: StoredCluster) -> None:
    await cluster.put(ScalingGroup(ScalingGroupName("arms")))
    for name in ("a1", "a2"):
        await cluster.agent(name)
    await cluster.agent("a3", architecture=ARM)
    await cluster.agent("b1", architecture=ARM, scaling_group=ScalingGroupName("arms"))

    assert await usual(pools(cluster)) == {"default": "x86_64", "arms": ARM}


async def test_a_tie_is_broken_by_name(cluster: StoredCluster) -> None:
    await cluster.agent("a1")
    await cluster.agent("a2", architecture=ARM)

    assert await usual(pools(cluster)) == {"default": ARM}


async def test_the_first_agent_counts_at_once(cluster: StoredCluster) -> None:
    known = pools(cluster)
    assert await usual(known) == {}

    await cluster.agent("a1", architecture=ARM)

    assert await usual(known) == {"default": ARM}


async def test_what_was_read_is_kept_for_a_while(cluster: StoredCluster) -> None:
    known = pools(cluster)
    await cluster.agent("a1", architecture=ARM)
    await known.current()
    for name in ("a2", "a3"):
        await cluster.agent(name)

    assert await usual(known) == {"default": ARM}
    await cluster.elapse(KEPT_S)
    assert await usual(known) == {"default": "x86_64"}


async def test_the_slots_of_a_scaling_group_are_those_that_any_of_its_agents_has(cluster: StoredCluster) -> None:
    await cluster.put(ScalingGroup(ScalingGroupName("small")))
    await cluster.agent("a1", slots={"cpu": 1})
    await cluster.agent("a2", slots={"cuda.device": 2})
    await cluster.agent("b1", slots={"cpu": 1}, scaling_group=ScalingGroupName("small"))

    found = await pools(cluster).current()

    assert {group: pool.slots for group, pool in found.items()} == {"default": {"cpu", "cuda.device"}, "small": {"cpu"}}


async def test_a_new_agent_is_seen_by_requests_that_need_its_slots(cluster: StoredCluster) -> None:
    known = pools(cluster)
    await cluster.agent("a1", slots={"cpu": 1})
    await known.current()
    await cluster.agent("a2", slots={"cuda.device": 2})

    assert (await known.current("default", ["cpu"]))["default"].slots == {"cpu"}
    assert (await known.current("default", ["cuda.device"]))["default"].slots == {"cpu", "cuda.device"}


@pytest.mark.slow
async def test_room_is_read_only_where_a_group_must_be_chosen(cluster: StoredCluster) -> None:
    known, request = pools(cluster), SessionRequest()
    await cluster.put(ScalingGroup(ScalingGroupName("small")))
    await cluster.agent("a1", slots={"cpu": 8})
    assert (await known.for_request(request))["default"].room is None
    await cluster.agent("b1", slots={"cpu": 1}, scaling_group=ScalingGroupName("small"))
    await cluster.elapse(KEPT_S)
    assert (await known.for_request(replace(request, scaling_group="small")))["small"].room is None
    small = (await known.for_request(request))["small"]
    assert small.room == {"x86_64": {"cpu": SlotRoom(1, 1, 1)}}


async def test_what_was_submitted_counts_as_taken_until_the_room_is_read_again(cluster: StoredCluster) -> None:
    known, request = pools(cluster), SessionRequest()
    await cluster.put(ScalingGroup(ScalingGroupName("small")))
    await cluster.agent("a1", slots={"cpu": 8})
    await cluster.agent("b1", slots={"cpu": 1}, scaling_group=ScalingGroupName("small"))
    await known.for_request(request)
    known.take("default", {"cpu": 3})
    known.take("default", {"cpu": 2})
    assert (await known.for_request(request))["default"].taken == {"cpu": 5}
    await cluster.elapse(ROOM_KEPT_S)
    assert (await known.for_request(request))["default"].taken == {}


async def test_a_pool_is_open_if_an_agent_does_not_isolate_its_kernels_unless_that_is_allowed(
    cluster: StoredCluster,
) -> None:
    await cluster.agent("bare", labels={"sokovan.isolation": "none"})
    assert (await pools(cluster).current())["default"].open
    allowing = pools(cluster)
    allowing.shared = True
    assert not (await allowing.current())["default"].open


async def test_a_new_agent_is_seen_by_requests_that_need_its_runtime(cluster: StoredCluster) -> None:
    await cluster.agent("a1", labels={"sokovan.runtime": "process"})
    known = pools(cluster)
    container = SessionRequest(image="python:3.12", command=("x",))
    assert (await known.for_request(container))["default"].runtimes == {"process"}

    await cluster.agent("a2", labels={"sokovan.runtime": "docker"})

    assert (await known.for_request(SessionRequest(command=("x",))))["default"].runtimes == {"process"}
    assert (await known.for_request(container))["default"].runtimes == {"process", "docker"}
