"""Kernels of one session get ranks that are unique, dense and stable."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.session import KernelSpec, SessionSpec
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import BY_USER
from sokovan.wire.frames import CreateKernel

pytestmark = pytest.mark.slow

LARGE, SMALL = ResourceSlot({"cpu": 8000}), ResourceSlot({"cpu": 1000})


def unlike_groups(name: str, *, minimum: int | None) -> SessionSpec:
    """A session of one large kernel, the first, and two small ones."""
    kernels = tuple(
        KernelSpec(KernelId(f"{name}.{index}"), slots, group=group, image="python", command=("work",))
        for index, (group, slots) in enumerate((("main", LARGE), ("worker", SMALL), ("worker", SMALL)))
    )
    return SessionSpec(SessionId(name), kernels, min_kernels=minimum)


def record_environments(cluster: OrchestratedCluster) -> dict[str, list[Mapping[str, str]]]:
    """The environments that agents are sent, by kernel, in order."""
    seen: dict[str, list[Mapping[str, str]]] = {}
    create = cluster.agents.create_kernel

    async def recording(agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        seen.setdefault(launch.kernel_id, []).append(launch.environment)
        await create(agent_id, incarnation, launch)

    cluster.agents.create_kernel = recording  # type: ignore[method-assign]  # a spy in front of it
    return seen


async def submit(cluster: OrchestratedCluster, spec: SessionSpec) -> None:
    await cluster.store.run(lambda unit: unit.sessions.enqueue(spec, BY_USER))
    await cluster.hints.set("sessions")
    await cluster.pass_time(2)


def ranks(seen: Mapping[str, list[Mapping[str, str]]]) -> dict[str, set[str]]:
    return {kernel: {one["RANK"] for one in environments} for kernel, environments in seen.items()}


async def test_a_session_that_starts_without_its_first_kernel_has_a_rank_0(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1", slots={"cpu": 4000})
    seen = record_environments(cluster)
    await submit(cluster, unlike_groups("s", minimum=2))
    assert ranks(seen) == {"s.1": {"0"}, "s.2": {"1"}}
    assert {one["MASTER_ADDR"] for sent in seen.values() for one in sent} == {"127.0.0.1"}


async def test_a_kernel_that_starts_later_takes_a_new_rank(cluster: OrchestratedCluster) -> None:
    first = await cluster.agent("a1", slots={"cpu": 4000})
    first.labels["address"] = "10.0.0.1"
    await first.restart()
    seen = record_environments(cluster)
    await submit(cluster, unlike_groups("s", minimum=2))
    second = await cluster.agent("a2", slots={"cpu": 8000})
    second.labels["address"] = "10.0.0.2"
    await second.restart()
    await cluster.pass_time(2)
    assert ranks(seen) == {"s.0": {"2"}, "s.1": {"0"}, "s.2": {"1"}}
    (late,) = seen["s.0"]
    assert (late["WORLD_SIZE"], late["MASTER_ADDR"]) == ("3", "10.0.0.1")
    assert late["SOKOVAN_HOSTS"] == "10.0.0.1,10.0.0.1,10.0.0.2"


async def test_a_kernel_keeps_its_rank_when_its_creation_is_repeated(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1", slots={"cpu": 4000})
    seen = record_environments(cluster)
    await submit(cluster, unlike_groups("s", minimum=1))
    await cluster.agent("a2", slots={"cpu": 8000})
    await cluster.pass_time(2)
    await agent.restart()
    await cluster.pass_time(3)
    assert len(seen["s.1"]) > 1
    assert ranks(seen) == {"s.0": {"2"}, "s.1": {"0"}, "s.2": {"1"}}


async def test_kernels_that_start_together_are_ranked_by_their_index(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1", slots={"cpu": 16000})
    seen = record_environments(cluster)
    await submit(cluster, unlike_groups("s", minimum=None))
    assert ranks(seen) == {"s.0": {"0"}, "s.1": {"1"}, "s.2": {"2"}}
    assert [kernel.rank for kernel in (await cluster.session("s")).kernels] == [0, 1, 2]
