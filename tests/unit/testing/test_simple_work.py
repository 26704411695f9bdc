"""Sessions that tests submit."""

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SystemSnapshot, workload_of
from sokovan.testing.simple_work import decide_at_once, work_spec


def test_a_session_has_equal_kernels_by_number() -> None:
    spec = work_spec("s", kernels=2, slots={"cpu": 500}, image="big", priority=3)
    assert [kernel.kernel_id for kernel in spec.kernels] == ["s.0", "s.1"]
    assert {(kernel.slots, kernel.image, kernel.command) for kernel in spec.kernels} == {
        (ResourceSlot({"cpu": 500}), "big", ("work",))
    }
    assert spec.priority == 3


async def test_it_is_decided_at_once() -> None:
    agent = AgentInfo(AgentId("a1"), ResourceSlot({"cpu": 4000, "mem": 8 << 30}))
    snapshot = SystemSnapshot(agents=(agent,), sessions=(workload_of(work_spec("s"), submitted=1),))
    plan = await decide_at_once(snapshot, SchedulingProfile())
    assert [placement.agent_id for placement in plan.placements] == ["a1"]
