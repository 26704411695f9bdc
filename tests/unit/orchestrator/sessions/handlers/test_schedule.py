"""A cycle's outcome goes on in the same round."""

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.scheduling.plan import Eviction, SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import decide_at_once

FOUR_CPUS = {"cpu": 4000, "mem": 8 << 30}


async def test_slots_freed_in_a_cycle_are_allocated_in_it(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.submit("first", slots=FOUR_CPUS)
    await cluster.submit("second", slots=FOUR_CPUS)
    await cluster.settle()
    await agent.ends("first.0", 0)
    await cluster.tick()
    assert await cluster.status("first") == "terminated"
    assert await cluster.status("second") in {"creating", "running"}
    await cluster.settle()


async def test_a_preempted_session_is_stopped_and_names_its_beneficiary(cluster: OrchestratedCluster) -> None:
    async def evicting(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        if any(session.session_id == "urgent" for session in snapshot.sessions):
            eviction = Eviction(KernelId("victim.0"), SessionId("victim"), AgentId("a1"), SessionId("urgent"))
            return SchedulingPlan(evictions=(eviction,))
        return await decide_at_once(snapshot, profile)

    await cluster.agent("a1")
    cluster.coordinator = cluster.new_coordinator(decide=evicting)
    await cluster.submit("victim")
    await cluster.settle()
    await cluster.submit("urgent")
    await cluster.settle()
    victim = await cluster.session("victim")
    assert (victim.status.value, victim.cause) == ("terminated", "preempted")
    assert "urgent" in (victim.cause_detail or "")


async def test_figures_tell_of_placements_and_of_who_waits(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.submit("first", slots=FOUR_CPUS)
    await cluster.submit("second", slots=FOUR_CPUS)
    await cluster.settle()
    assert cluster.telemetry.counted("placements_total") == 1
    assert cluster.telemetry.gauged("sessions_waiting") == 1
