"""Evictions through the store: notice, proof, room for the taker, and the return of the evicted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import KernelId, QueueName, SessionId
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import EndPolicy, PreemptedPolicy, SessionType
from sokovan.domain.slots import SlotLimits
from sokovan.orchestrator.sessions.explain.plan import DryRuns
from sokovan.orchestrator.sessions.explain.why import WhyService
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP
from tests.scenario.evicting import A1, AT_ONCE, FOUR, PREEMPTING, WHOLE_AGENT, low_and_high

pytestmark = pytest.mark.slow  # many cycles through the store per test


async def test_a_session_of_higher_priority_takes_the_room_of_a_lower_one(cluster: OrchestratedCluster) -> None:
    await low_and_high(cluster)
    await cluster.settle()
    low, high = await cluster.session("low"), await cluster.session("high")
    assert (high.status, high.kernels[0].agent_id) == ("running", "a1")
    assert (low.status, low.kernels[0].attempt, low.kernels[0].agent_id, low.cause) == ("pending", 2, None, None)
    moves = [(one.before, one.trigger, one.after) for one in await cluster.history("low")]
    assert ("running", "preempted", "terminating") in moves
    assert ("terminating", "requeued", "pending") in moves
    assert ("running", "evicted") in [(one.before, one.trigger) for one in await cluster.history("low", kernels=True)]
    assert cluster.telemetry.counted("evictions_total", action="preempt") == 1


async def test_the_evicted_come_back_with_their_age_and_finish(cluster: OrchestratedCluster) -> None:
    await low_and_high(cluster)
    before = await cluster.session("low")
    await cluster.settle()
    await cluster.submit("later", **FOUR)
    await cluster.agents.all[A1].ends("high.0")
    await cluster.pass_time(1)
    # The wait after an eviction keeps the room for nobody.
    assert (await cluster.status("low"), await cluster.status("later")) == ("pending", "running")
    await cluster.pass_time(32)
    await cluster.agents.all[A1].ends("later.0")
    await cluster.pass_time(2)
    low = await cluster.session("low")
    assert (low.status, low.place, low.submitted_ms) == ("running", before.place, before.submitted_ms)
    await cluster.agents.all[A1].ends("low.0")
    await cluster.pass_time(1)
    assert ((await cluster.session("low")).status, (await cluster.session("low")).result) == ("terminated", "success")


async def test_slots_are_freed_only_with_the_proof_of_the_end(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    agent = await cluster.agent("a1", slots=WHOLE_AGENT)
    agent.script.stubborn = True
    await cluster.submit("low", **FOUR)
    await cluster.settle()
    await cluster.submit("high", priority=5, **FOUR)
    await cluster.pass_time(20)
    low = await cluster.session("low")
    assert (low.status, low.is_retried, await cluster.status("high")) == ("terminating", True, "pending")
    assert await cluster.used("a1") == {"cpu": 4000}
    assert [one.whole for one in low.evictions] == [True]
    # A session of the same priority as the taker does not get the room either.
    await cluster.submit("equal", priority=5, **FOUR)
    await agent.ends("low.0", 143)
    await cluster.pass_time(3)
    assert (await cluster.status("high"), await cluster.status("equal")) == ("running", "pending")
    assert len((await cluster.session("low")).evictions) == 1


async def test_an_elastic_session_goes_on_with_fewer_kernels(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    await cluster.agent("a1", slots=WHOLE_AGENT)
    await cluster.submit("elastic", kernels=4, min_kernels=2, slots={"cpu": 1000}, session_type=SessionType.BATCH)
    await cluster.settle()
    await cluster.submit("high", slots={"cpu": 2000}, priority=5)
    await cluster.settle()
    elastic = await cluster.session("elastic")
    assert (elastic.status, await cluster.status("high")) == ("running", "running")
    assert sorted(one.status for one in elastic.kernels) == ["pending", "pending", "running", "running"]
    assert [(one.kernels, one.whole) for one in elastic.evictions] == [(2, False)]
    assert [one.attempt for one in elastic.kernels if one.status == "pending"] == [2, 2]
    await cluster.stop("high")
    await cluster.pass_time(40)
    assert {one.status for one in (await cluster.session("elastic")).kernels} == {"running"}


@pytest.mark.parametrize(
    "options",
    [{"session_type": SessionType.INTERACTIVE}, {"on_preempt": PreemptedPolicy.END}],
)
async def test_a_session_that_does_not_return_ends_with_the_cause(
    cluster: OrchestratedCluster, options: dict[str, Any]
) -> None:
    await low_and_high(cluster, **options)
    await cluster.settle()
    low = await cluster.session("low")
    assert (low.status, low.cause, low.result) == ("terminated", "preempted", "failure")
    assert "make room for session high; it ends" in str(low.cause_detail)
    assert await cluster.status("high") == "running"


async def test_kernels_that_others_cannot_do_without_take_the_whole_session_along(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    await cluster.agent("a1", slots={"cpu": 2000})
    await cluster.agent("a2", slots={"cpu": 1000})
    options: dict[str, Any] = {"kernels": 2, "min_kernels": 1, "ends_with": EndPolicy.MAIN}
    await cluster.submit("pair", slots={"cpu": 1000}, session_type=SessionType.BATCH, **options)
    await cluster.settle()
    pair = await cluster.session("pair")
    await cluster.submit("high", slots={"cpu": 2000}, priority=5)
    await cluster.settle()
    pair = await cluster.session("pair")
    assert await cluster.status("high") == "running"
    assert pair.status in {"running", "pending"}
    if pair.status == "running":
        assert pair.kernels[0].status == "running"


async def test_a_taker_that_is_stopped_leaves_the_room_to_the_evicted(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    agent = await cluster.agent("a1", slots=WHOLE_AGENT)
    agent.script.stubborn = True
    await cluster.submit("low", **FOUR)
    await cluster.settle()
    await cluster.submit("high", priority=5, **FOUR)
    await cluster.settle()
    assert await cluster.status("low") == "terminating"
    await cluster.stop("high")
    await agent.ends("low.0", 143)
    await cluster.pass_time(40)
    assert (await cluster.status("high"), await cluster.status("low")) == ("cancelled", "running")


@pytest.mark.parametrize("dies", [False, True])
async def test_the_room_of_a_taker_that_is_stopped_goes_to_no_other_session(
    cluster: OrchestratedCluster, dies: bool
) -> None:
    options = {**PREEMPTING.scheduler_opts, "queue_policy": "capacity"}
    group = ScalingGroup(name=DEFAULT_GROUP, scheduler_opts=options)
    await cluster.stored.put(group, AT_ONCE, Queue(QueueName("other")))
    agent = await cluster.agent("a1", slots=WHOLE_AGENT)
    agent.script.stubborn = True
    await cluster.submit("low", **FOUR)
    await cluster.settle()
    await cluster.submit("equal", **FOUR)
    await cluster.submit("elsewhere", queue=QueueName("other"), **FOUR)
    await cluster.submit("high", priority=5, **FOUR)
    await cluster.settle()
    assert await cluster.status("low") == "terminating"
    await cluster.stop("high")
    await agent.ends("low.0", 143)
    if dies:
        await cluster.fail_over()
    await cluster.pass_time(3)
    assert [await cluster.status(one) for one in ("high", "low", "equal", "elsewhere")] == [
        "cancelled",
        "running",
        "pending",
        "pending",
    ]
    # Its age alone decides again once it runs.
    await agent.ends("low.0")
    await cluster.pass_time(3)
    assert sorted([await cluster.status(one) for one in ("equal", "elsewhere")]) == ["pending", "running"]


async def test_a_session_of_higher_priority_has_the_room_of_a_stopped_taker_before_the_evicted(
    cluster: OrchestratedCluster,
) -> None:
    await low_and_high(cluster)
    agent = cluster.agents.all[A1]
    agent.script.stubborn = True
    await cluster.submit("next", priority=5, **FOUR)
    await cluster.settle()
    await cluster.stop("high")
    await agent.ends("low.0", 143)
    await cluster.pass_time(3)
    # Otherwise it would be evicted again as soon as it may be.
    assert (await cluster.status("next"), await cluster.status("low")) == ("running", "pending")
    low = await cluster.session("low")
    assert len(low.evictions) == 1
    explained = await WhyService(cluster.stored.store).why(low.session_id)
    assert "does not need its room" in " ".join(one.detail for one in explained.checks)


async def test_a_manager_that_dies_after_the_eviction_is_followed_by_one_that_completes_it(
    cluster: OrchestratedCluster,
) -> None:
    await low_and_high(cluster)
    agent = cluster.agents.all[A1]
    agent.script.stubborn = True
    await cluster.settle()
    assert await cluster.status("low") == "terminating"
    await cluster.fail_over()
    await cluster.pass_time(2)
    assert (await cluster.status("low"), await cluster.status("high")) == ("terminating", "pending")
    await agent.ends("low.0", 143)
    await cluster.pass_time(3)
    low = await cluster.session("low")
    assert (await cluster.status("high"), low.status, len(low.evictions)) == ("running", "pending", 1)


async def test_a_queue_takes_back_what_it_deserves(cluster: OrchestratedCluster) -> None:
    share = SlotLimits({"cpu": 2000})
    await cluster.stored.put(
        ScalingGroup(
            name=DEFAULT_GROUP,
            scheduler_opts={"actions": ["enqueue", "allocate", "reclaim"], "queue_policy": "capacity"},
        ),
        Queue(QueueName("one"), deserved=share, min_runtime_s=0),
        Queue(QueueName("two"), deserved=share, min_runtime_s=0),
    )
    await cluster.agent("a1", slots=WHOLE_AGENT)
    work: dict[str, Any] = {"slots": {"cpu": 1000}, "session_type": SessionType.BATCH}
    for number in range(4):
        await cluster.submit(f"one-{number}", queue=QueueName("one"), **work)
    await cluster.settle()
    for number in range(4):
        await cluster.submit(f"two-{number}", queue=QueueName("two"), **work)
    await cluster.pass_time(600, step_s=10)
    running = [
        one for queue in ("one", "two") for n in range(4) if await cluster.status(one := f"{queue}-{n}") == "running"
    ]
    assert sorted(one[:3] for one in running) == ["one", "one", "two", "two"]
    evicted = [len((await cluster.session(f"{queue}-{n}")).evictions) for queue in ("one", "two") for n in range(4)]
    assert sum(evicted) == 2  # it settles: nothing is taken back and forth


@pytest.mark.parametrize("status", ["pulling", "creating"])
async def test_kernels_that_join_a_session_are_evicted_in_any_status(cluster: OrchestratedCluster, status: str) -> None:
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    await cluster.agent("a1", slots={"cpu": 2000})
    await cluster.submit("elastic", kernels=4, min_kernels=2, slots={"cpu": 1000}, session_type=SessionType.BATCH)
    await cluster.settle()
    late = await cluster.agent("a2", slots={"cpu": 2000})
    if status == "creating":
        late.script.slow = True
    else:
        late.script.pulls.add("python")
    await cluster.settle()
    joining = [one for one in (await cluster.session("elastic")).kernels if one.agent_id == "a2"]
    assert {one.status for one in joining} == {status}
    await cluster.submit("high", slots={"cpu": 2000}, priority=5, session_type=SessionType.BATCH)
    await cluster.settle()
    if status == "creating":
        await cluster.pass_time(12)
    elastic = await cluster.session("elastic")
    assert (elastic.status, [one.kernels for one in elastic.evictions]) == ("running", [2])
    assert [one.before for one in await cluster.history("elastic", kernels=True) if one.trigger == "evicted"] == (
        [status] * 2
    )


async def test_a_session_is_protected_until_it_ran_for_its_minimum_run_time(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(PREEMPTING, Queue(QueueName("default"), min_runtime_s=20))
    await cluster.agent("a1", slots=WHOLE_AGENT)
    await cluster.submit("low", **FOUR)
    await cluster.settle()
    await cluster.submit("high", priority=5, **FOUR)
    await cluster.pass_time(15)
    assert (await cluster.status("low"), await cluster.status("high")) == ("running", "pending")
    await cluster.pass_time(40)
    assert await cluster.status("high") == "running"


async def test_the_evicted_get_a_notice_and_the_receipt_counts_from_their_last_checkpoint(
    cluster: OrchestratedCluster,
) -> None:
    await low_and_high(cluster)
    agent = cluster.agents.all[A1]
    agent.script.stubborn = True
    await cluster.pass_time(30)
    low = await cluster.session("low")
    notice = json.loads(cluster.agents.notices[KernelId("low.0")])
    assert (notice["reason"], notice["for"], notice["then"]) == ("preempt", "high", "requeue")
    assert notice["evict_at"] * 1000 == low.evictions[0].evict_at_ms
    agent.saves("low.0", 12)
    await agent.ends("low.0", 0)
    await cluster.pass_time(2)
    low = await cluster.session("low")
    [receipt] = low.evictions
    assert (low.status, receipt.reported, receipt.step) == ("pending", True, 12)
    assert receipt.lost_s <= 4 * 2
    assert low.checkpoint_ms == receipt.saved_ms
    [told] = [one for one in await cluster.history("high") if one.change.code == "room-freed"]
    assert "1 kernel of session low ended" in told.change.detail
    assert "since the checkpoint of step 12 were lost" in told.change.detail
    assert cluster.telemetry.counted("evicted_slot_seconds_total", action="preempt") == receipt.lost_s


async def test_a_session_that_is_done_ends_well_although_it_was_evicted(cluster: OrchestratedCluster) -> None:
    await low_and_high(cluster)
    agent = cluster.agents.all[A1]
    agent.script.stubborn = True
    await cluster.settle()
    agent.saves("low.0", 99, done=True)
    await agent.ends("low.0", 137)
    await cluster.pass_time(2)
    low = await cluster.session("low")
    assert (low.status, low.result, low.cause) == ("terminated", "success", "done")
    assert (low.evictions[0].step, await cluster.status("high")) == (99, "running")


async def test_a_session_that_states_how_often_it_saves_loses_no_more_than_that(cluster: OrchestratedCluster) -> None:
    await low_and_high(cluster, checkpoint_s=20)
    await cluster.stop("high")
    await cluster.pass_time(60, step_s=10)
    await cluster.submit("urgent", priority=5, **FOUR)
    await cluster.settle()
    [receipt] = (await cluster.session("low")).evictions
    assert (receipt.reported, receipt.saves_every_s) == (False, 20)
    assert receipt.lost_s in range(4 * 20, 4 * 25)


async def test_a_report_of_a_checkpoint_makes_a_session_a_cheaper_victim(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    agent = await cluster.agent("a1", slots={"cpu": 2000})
    work: dict[str, Any] = {"slots": {"cpu": 1000}, "session_type": SessionType.BATCH}
    await cluster.submit("early", **work)
    await cluster.settle()
    await cluster.pass_time(60, step_s=5)
    await cluster.submit("late", **work)
    await cluster.pass_time(180, step_s=10)
    agent.saves("early.0", 5)
    await cluster.pass_time(3)
    assert (await cluster.session("early")).checkpoint_ms is not None
    await cluster.submit("high", slots={"cpu": 1000}, priority=5)
    await cluster.pass_time(2)
    assert (await cluster.status("early"), await cluster.status("late")) == ("pending", "running")


async def test_why_lists_those_that_would_be_evicted_and_hides_sessions_of_others(cluster: OrchestratedCluster) -> None:
    await low_and_high(cluster)
    await cluster.submit("foreign", priority=5, owner=Owner(user="somebody"), **FOUR)
    service = WhyService(cluster.store, DryRuns(SqlSnapshots(cluster.store)))
    found = await service.why(SessionId("high"), evict=True)
    [victim] = found.evicts
    assert (victim.session, victim.action, victim.kernels, victim.whole) == ("low", "preempt", 1, True)
    assert any(check.name == "evicts" and "would take 1 kernel of" in check.detail for check in found.checks)
    assert (await service.why(SessionId("high"))).evicts == ()
    await cluster.stop("high")
    hidden = await service.why(SessionId("foreign"), evict=True)
    assert [one.session for one in hidden.evicts] == [""]
    everything = await service.why(SessionId("foreign"), SessionFilter(), evict=True)
    assert [one.session for one in everything.evicts] == ["low"]
    await cluster.submit("equal", **FOUR)
    none = await service.why(SessionId("equal"), evict=True)
    assert (none.evicts, none.checks[-1].detail) == ((), "nothing would be evicted for it now")


async def test_a_victim_that_does_not_end_is_not_waited_for_and_others_are_taken(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    agents = [await cluster.agent(name, slots=WHOLE_AGENT) for name in ("a1", "a2")]
    for name in ("low1", "low2"):
        await cluster.submit(name, owner=Owner(user=name), **FOUR)
    await cluster.settle()
    for agent in agents:
        agent.faults.update({"stop": Fault.HANGS, "kill": Fault.HANGS})
    await cluster.submit("high", priority=5, owner=Owner(user="other"), **FOUR)
    await cluster.settle()
    evicted = {name: await cluster.session(name) for name in ("low1", "low2")}
    [stuck] = [one for one in evicted.values() if one.evictions]
    agents[stuck.kernels[0].agent_id == "a1"].faults.clear()
    await cluster.pass_time(90, step_s=10)
    assert await cluster.status("high") == "pending"
    await cluster.pass_time(60, step_s=10)
    assert await cluster.status("high") == "running"
    assert await cluster.used(str(stuck.kernels[0].agent_id)) == {"cpu": 4000}, "nothing is freed without a proof"
