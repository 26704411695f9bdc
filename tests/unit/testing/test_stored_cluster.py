"""The convenience methods of a stored cluster."""

from pathlib import Path

import pytest

from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import CAPACITY, DEFAULT_GROUP, StoredCluster, assignment, refusal, session_spec


async def test_a_cluster_begins_with_one_scaling_group() -> None:
    async with StoredCluster.open() as cluster:
        found = await cluster.store.read(lambda unit: unit.catalog.all(ScalingGroup))
        assert [group.name for group in found] == [DEFAULT_GROUP]


async def test_a_known_database_is_opened_as_it_was_left(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    async with StoredCluster.open(url) as cluster:
        await cluster.submit("s1")
    async with StoredCluster.open(url) as cluster:
        assert (await cluster.session("s1")).status is SessionStatus.PENDING


async def test_an_agent_has_the_usual_capacity_and_a_device_for_each_number() -> None:
    async with StoredCluster.open() as cluster:
        usual, without = await cluster.agent("a1"), await cluster.agent("a2", devices=False)
        assert usual.info.available_slots == ResourceSlot(CAPACITY)
        assert [device.device_id for device in usual.devices] == ["gpu0", "gpu1", "gpu2", "gpu3"]
        assert without.devices == ()
        other = await cluster.agent("a3", slots={"cpu": 1}, kernels_max=2)
        assert (other.info.available_slots, other.info.kernels_max) == (ResourceSlot({"cpu": 1}), 2)


async def test_a_session_lives_from_submission_to_its_proven_end() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        assert (await cluster.submit("s1", kernels=2)).status is SessionStatus.PENDING
        assert not (await cluster.place("s1", "a1", "a1")).refused
        assert (await cluster.start("s1")).status is SessionStatus.RUNNING
        assert (await cluster.stop("s1")).goal is Goal.STOP
        ended = await cluster.free("s1", FreeProof.AGENT_TOMBSTONE)
        assert ended.status is SessionStatus.TERMINATED
        assert {kernel.status for kernel in ended.kernels} == {KernelStatus.TERMINATED}


async def test_names_are_new_each_time_and_say_what_they_name() -> None:
    async with StoredCluster.open(clock=VirtualClock()) as cluster:
        names = [cluster.new("s") for _ in range(100)]
        assert len(set(names)) == 100
        assert all(name.startswith("s-") for name in names)


async def test_time_passes_with_its_clock() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        before = clock.now_ms()
        await cluster.elapse(90)
        assert clock.now_ms() == before + 90_000


async def test_what_an_administrator_writes_down_is_put() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.put(Image("python"), ScalingGroup(name=ScalingGroupName("other")))
        assert await cluster.store.read(lambda unit: unit.catalog.all(Image)) == [Image("python")]


def test_specs_and_assignments_name_kernels_by_their_session() -> None:
    spec = session_spec("s1", kernels=2, priority=3)
    assert [kernel.kernel_id for kernel in spec.kernels] == ["s1.0", "s1.1"]
    assert spec.priority == 3
    one = assignment("s1", "a1", "a2", hypernode="rack1")
    assert one.kernels == ((KernelId("s1.0"), AgentId("a1")), (KernelId("s1.1"), AgentId("a2")))
    assert one.hypernode == "rack1"


async def test_a_refusal_is_the_error_and_its_absence_is_one() -> None:
    async with StoredCluster.open() as cluster:
        error = await refusal(cluster.session("nobody"), ObjectNotFound)
        assert error.name == "nobody"
        await cluster.submit("s1")
        with pytest.raises(AssertionError, match="NotFound was not raised"):
            await refusal(cluster.session("s1"), ObjectNotFound)
        with pytest.raises(ObjectNotFound):
            await refusal(cluster.session("nobody"), LookupError)
