"""Computes the memory of kernels whose request names none."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, QueueName
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import User
from sokovan.domain.session_request import KernelGroupRequest
from sokovan.domain.slots import ResourceSlot, SlotLimits
from tests.unit.adapters.sql.statements import recorded_statements
from tests.unit.orchestrator.sessions.controller_harness import ControllerHarness, controller_harness

MIB, GIB = 1 << 20, 1 << 30
GPU = "cuda.device"
BIG = {"cpu": 16_000, "mem": 128 * GIB, GPU: 8}


async def given(on: ControllerHarness, **options: Any) -> int:
    """The memory of the first kernel of a session with these options."""
    return (await on.submit(**options)).kernels[0].slots["mem"]


@pytest.mark.parametrize(
    ("resources", "memory"),
    [
        ({"gpu": 1}, 12 * GIB),
        ({"gpu": 8}, 96 * GIB),
        ({"gpu": 1, "cpu": 8}, 12 * GIB),
        ({}, 8 * GIB),
        ({"cpu": 4}, 32 * GIB),
        ({"cpu": 16}, 128 * GIB),
        ({"cpu": "10m"}, 256 * MIB),
        ({"gpu": 1, "mem": "1GiB"}, GIB),
        ({"gpu": 1, "shm": "4GiB"}, 12 * GIB),
        ({"gpu": 9}, 256 * MIB),
    ],
)
async def test_memory_is_in_proportion_to_accelerators_else_to_cpus(resources: dict[str, Any], memory: int) -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)

        assert await given(on, resources=resources) == memory


@pytest.mark.slow
async def test_one_session_per_device_fits_on_an_agent_and_leaves_room() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)
        sessions = [await on.submit(resources={"gpu": 1}) for _ in range(8)]
        beside = await on.submit()
        for session in (*sessions, beside):
            await on.place(session.session_id, "a1")

        assert (await on.cluster.session(beside.session_id)).kernels[0].agent_id == "a1"


@pytest.mark.slow
async def test_the_agent_with_the_least_memory_per_device_counts_if_it_has_enough_devices() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)
        await on.cluster.agent("a2", slots={**BIG, "mem": 64 * GIB})
        await on.cluster.agent("a3", slots={"cpu": 1000, "mem": 1 * GIB, GPU: 1})

        assert await given(on, resources={"gpu": 2}) == 12 * GIB
        assert await given(on, resources={"gpu": 1}) == 768 * MIB
        assert await given(on) == GIB


async def test_without_agents_a_kernel_gets_a_fixed_default() -> None:
    async with controller_harness() as on:
        assert await given(on, resources={"gpu": 1}) == 256 * MIB


async def test_a_scaling_group_may_set_the_memory_per_device_and_per_cpu() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)
        group = ScalingGroup(DEFAULT_SCALING_GROUP, mem_per_gpu_bytes=3 * GIB, mem_per_cpu_bytes=GIB)
        await on.cluster.put(group)

        assert await given(on, resources={"gpu": 2}) == 6 * GIB
        assert await given(on, resources={"cpu": "2500m"}) == 2560 * MIB
        assert await given(on, resources={"cpu": 1}) == GIB


@pytest.mark.slow
async def test_memory_per_device_never_exceeds_the_agents() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)
        await on.cluster.put(ScalingGroup(DEFAULT_SCALING_GROUP, mem_per_gpu_bytes=100 * GIB))

        assert await given(on, resources={"gpu": 2}) == 128 * GIB


@pytest.mark.parametrize(
    ("limits", "options", "memory"),
    [
        ({"mem": 4 * GIB}, {"resources": {"gpu": 1}}, 4 * GIB),
        ({"mem": 4 * GIB}, {"resources": {"gpu": 1}, "size": 4}, GIB),
        ({"mem": 4 * GIB, "cpu": 4000}, {}, GIB),
        ({"mem": 4 * GIB, "cpu": 400_000}, {}, 256 * MIB),
        ({"mem": 128 * MIB, "cpu": 4000}, {}, 128 * MIB),
        ({"mem": 0}, {}, 8 * GIB),
        ({GPU: 1}, {"resources": {"gpu": 1}}, 12 * GIB),
    ],
)
async def test_a_default_stays_inside_the_limits_of_the_owner(
    limits: dict[str, int], options: dict[str, Any], memory: int
) -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)
        policy = ResourcePolicy("small", slots_max=SlotLimits(limits))
        await on.cluster.put(policy, User("alice", "lab", groups=("vision",), policy=policy.name))

        assert await given(on, **options) == memory


async def test_a_default_stays_inside_the_maximum_of_the_queue_and_its_parents() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)
        await on.cluster.put(
            ScalingGroup(DEFAULT_SCALING_GROUP, scheduler_opts={"hierarchy": True}),
            Queue(QueueName("lab"), capability=SlotLimits({"mem": 2 * GIB})),
            Queue(QueueName("default"), parent=QueueName("lab")),
        )

        assert await given(on, resources={"gpu": 1}) == 2 * GIB


async def test_the_minimum_of_an_image_is_kept() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)
        await on.cluster.put(Image("torch", slots_min=ResourceSlot({"mem": 20 * GIB})))

        assert await given(on, image="torch", resources={"gpu": 1}) == 20 * GIB
        assert await given(on, image="torch", resources={"gpu": 4}) == 48 * GIB


async def test_each_kernel_group_gets_its_own_default() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)
        groups = (
            KernelGroupRequest(name="driver", resources={"cpu": 1}),
            KernelGroupRequest(name="worker", resources={"gpu": 2}),
        )

        kernels = (await on.submit(groups=groups)).kernels

    assert [kernel.slots["mem"] for kernel in kernels] == [8 * GIB, 24 * GIB]


@pytest.mark.slow
async def test_many_submissions_read_the_agents_once() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", slots=BIG)
        await on.submit()
        with recorded_statements(on.cluster) as statements:
            for _ in range(5):
                await on.submit(resources={"gpu": 1})

    assert not [text for text in statements if "agent_slots" in text.lower()]
