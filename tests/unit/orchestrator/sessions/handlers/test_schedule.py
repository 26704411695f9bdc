"""A cycle's outcome goes on in the same round."""

from dataclasses import replace

import pytest

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Domain, User
from sokovan.domain.session import SessionType
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.orchestrator.sessions import session_cache
from sokovan.orchestrator.sessions.explain.why import WhyService
from sokovan.scheduling.codec import verdict_from_json
from sokovan.scheduling.plan import Eviction, Placement, SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import Reservation, SystemSnapshot
from sokovan.scheduling.trace import Advice, Code, Verdict
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import decide_at_once
from tests.unit.adapters.sql.statements import recorded_statements

pytestmark = pytest.mark.slow

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
            eviction = Eviction(
                KernelId("victim.0"), SessionId("victim"), AgentId("a1"), SessionId("urgent"), "preempt"
            )
            reservation = Reservation(SessionId("urgent"), ((KernelId("urgent.0"), AgentId("a1")),))
            return SchedulingPlan(evictions=(eviction,), reservations=(reservation,))
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


async def test_a_refused_allocation_is_counted_and_explains_why_the_session_waits(cluster: OrchestratedCluster) -> None:
    async def too_late(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        """Decide as if the agent were empty: another session has taken its slots since."""
        plan = await decide_at_once(snapshot, profile)
        verdict = Verdict(SessionId("second"), Code.PLACED, "placed", kernels_placed=1)
        placement = Placement(KernelId("second.0"), SessionId("second"), AgentId("a1"))
        return replace(plan, placements=(placement,), verdicts=(verdict,))

    await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.submit("first", slots=FOUR_CPUS)
    await cluster.settle()
    await cluster.submit("second", slots=FOUR_CPUS)
    cluster.coordinator = cluster.new_coordinator(decide=too_late)
    await cluster.clock.advance(11)
    await cluster.agents.beat()
    await cluster.settle()
    await cluster.pass_time(2)
    refused = cluster.telemetry.counted("allocations_refused_total", code="slots-taken")
    assert refused >= 3
    stored = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("second")))
    assert stored is not None
    assert (stored.code, stored.times) == ("ALLOCATION_REFUSED", refused)
    verdict = verdict_from_json(stored.document)
    assert (verdict.shortfall, verdict.best_agent) == (ResourceSlot(FOUR_CPUS), "a1")
    assert "slots-taken" in verdict.summary
    [note] = [one for one in await cluster.history("second") if one.change.code == "ALLOCATION_REFUSED"]
    assert (note.times, note.change.detail) == (refused, verdict.summary)
    why = await WhyService(cluster.store).why(SessionId("second"))
    assert (why.code, why.summary) == ("ALLOCATION_REFUSED", verdict.summary)
    assert [(one.code, one.count) for one in why.history] == [("ALLOCATION_REFUSED", refused)]


async def test_what_can_never_pass_a_validator_is_cancelled_and_what_may_pass_waits(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.stored.put(
        ResourcePolicy("two", slots_max=SlotLimits({"cpu": 2000})),
        Domain("default"),
        User("default", "default", policy="two"),
    )
    await cluster.agent("a1")
    await cluster.submit("runs", slots={"cpu": 2000})
    await cluster.submit("later", slots={"cpu": 1000})
    await cluster.submit("never", slots={"cpu": 3000})
    await cluster.submit("elastic", kernels=3, slots={"cpu": 1000}, min_kernels=1)
    await cluster.settle()
    refused = await cluster.session("never")
    assert (refused.status.value, refused.cause) == ("cancelled", "validation-failed")
    limit = "user-resource-limit: user default requests 3 cpu with 2 of 2 in use"
    assert refused.cause_detail == f"it can never start: {limit}"
    why = await WhyService(cluster.store).why(SessionId("never"))
    assert (why.code, why.verdict) == ("VALIDATION_FAILED", Advice.CHANGE)
    assert [await cluster.status(name) for name in ("runs", "later", "elastic")] == ["running", "pending", "pending"]
    assert not cluster.failures


async def test_what_can_never_start_is_cancelled_although_it_is_not_read_yet(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = ResourcePolicy("two", slots_max=SlotLimits({"cpu": 2000}))
    await cluster.stored.put(two, Domain("default"), User("default", "default", policy="two"))
    for number in range(4):
        await cluster.submit(f"w{number}", slots={"cpu": 1000})
    await cluster.submit("never", slots={"cpu": 3000})
    monkeypatch.setattr(session_cache, "READ_AT_ONCE", 1)
    await cluster.tick()
    assert len(cluster.coordinator._reader.unread) > 0
    assert (await cluster.session("never")).cause == "validation-failed"


async def test_a_system_session_starts_first_and_counts_against_no_quota(cluster: OrchestratedCluster) -> None:
    two = ResourcePolicy("two", slots_max=SlotLimits({"cpu": 2000}), sessions_max=1)
    await cluster.stored.put(two, Domain("default"), User("default", "default", policy="two"))
    await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.submit("early", slots={"cpu": 2000}, priority=10)
    await cluster.submit("system", slots={"cpu": 3000}, session_type=SessionType.SYSTEM)
    await cluster.settle()
    assert [await cluster.status(name) for name in ("system", "early")] == ["running", "pending"]
    used = await cluster.store.read(lambda unit: unit.ledger.usage(Scope.USER, "default"))
    assert not sum(used.values())
    await cluster.stop("system")
    await cluster.settle()
    assert await cluster.status("early") == "running"


async def test_sessions_are_read_for_a_decision_only_if_one_waits(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("gang", kernels=5)
    await cluster.settle()
    await agent.ends("gang.0", 0)
    with recorded_statements(cluster.stored) as statements:
        await cluster.tick()
    assert not any("FROM kernels" in one and "kernels.slots" in one for one in statements), statements
    await cluster.submit("next")
    await cluster.settle()
    assert await cluster.status("next") == "running"
