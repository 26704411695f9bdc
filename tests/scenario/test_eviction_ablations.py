"""Each safeguard of evictions is needed: without it, the simulation counts what must not happen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sokovan.adapters.sql.allocation.evictions import evict
from sokovan.adapters.sql.repositories import ledger
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AccessKey, QueueName
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import Preemption
from sokovan.domain.slots import SlotLimits
from sokovan.orchestrator.sessions.handlers import terminate
from sokovan.orchestrator.sessions.handlers.terminate import TerminateSessions
from sokovan.ports.snapshots import RecordedPlan
from sokovan.scheduling import pipeline
from sokovan.scheduling.carried_state import CarriedState
from sokovan.scheduling.engine.evictions.evict import Evictions
from sokovan.scheduling.engine.evictions.victims import VictimSession
from sokovan.scheduling.engine.timing.owner_budget import OwnerBudget
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP
from tests.scenario.evicting import A1, AT_ONCE, FOUR, PREEMPTING, WHOLE_AGENT, low_and_high

pytestmark = pytest.mark.slow  # many cycles through the store per test

KEPT = pytest.mark.parametrize("kept", [True, False])


def evicting(**options: Any) -> ScalingGroup:
    """The scaling group of these tests with other options."""
    return ScalingGroup(name=DEFAULT_GROUP, scheduler_opts={**PREEMPTING.scheduler_opts, **options})


async def eviction_times(cluster: OrchestratedCluster, *names: str) -> Mapping[str, list[int]]:
    """The times at which sessions were evicted."""
    return {name: [one.at_ms for one in (await cluster.session(name)).evictions] for name in names}


@KEPT
async def test_without_a_minimum_run_time_sessions_are_evicted_right_after_their_start(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(VictimSession, "young_until_ms", lambda *_: 0)
    await cluster.stored.put(PREEMPTING, Queue(QueueName("default")))
    await cluster.agent("a1", slots=WHOLE_AGENT)
    await cluster.submit("low", **FOUR)
    await cluster.settle()
    began = (await cluster.session("low")).since_ms
    await cluster.submit("high", priority=5, **FOUR)
    await cluster.pass_time(90, step_s=5)
    [at_ms] = (await eviction_times(cluster, "low"))["low"]
    assert (at_ms - began >= 60_000) is kept


@KEPT
async def test_without_a_cool_down_two_queues_take_from_each_other_in_turn(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(Evictions, "_cooling", lambda *_: False)
    # Each queue deserves one of the two slots that every session needs: both are always entitled by it.
    shares = {"one": {"cpu": 4000, "mem": 0}, "two": {"cpu": 0, "mem": 4000}}
    queues = (Queue(QueueName(one), deserved=SlotLimits(share), min_runtime_s=0) for one, share in shares.items())
    await cluster.stored.put(evicting(queue_policy="capacity"), *queues)
    await cluster.agent("a1", slots={"cpu": 4000, "mem": 4000})
    for name in shares:
        await cluster.submit(name, queue=QueueName(name), **{**FOUR, "slots": {"cpu": 4000, "mem": 4000}})
        await cluster.settle()
    await cluster.pass_time(200, step_s=5)
    counts = {name: len(times) for name, times in (await eviction_times(cluster, *shares)).items()}
    assert (counts == {"one": 1, "two": 0}) is kept


@KEPT
async def test_without_a_back_off_the_evicted_are_back_before_30_s(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(pipeline, "back_off", lambda *_: None)
    await low_and_high(cluster)
    await cluster.settle()
    await cluster.agents.all[A1].ends("high.0")
    await cluster.pass_time(10)
    assert (await cluster.status("low") == "pending") is kept


@KEPT
async def test_without_the_budget_of_an_owner_one_loses_more_than_half_in_an_hour(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(OwnerBudget, "exceeded_by", lambda *_: set())
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    await cluster.agent("a1", slots=WHOLE_AGENT)
    ann, bob = (Owner(user=name, access_key=AccessKey(name)) for name in ("ann", "bob"))
    one: dict[str, Any] = {**FOUR, "slots": {"cpu": 1000}}
    hers = [f"hers{number}" for number in range(4)]
    for name in hers:
        await cluster.submit(name, owner=ann, **one)
    await cluster.settle()
    for number in range(4):
        await cluster.submit(f"his{number}", owner=bob, priority=5, **one)
    await cluster.pass_time(10)
    evicted = sum(map(len, (await eviction_times(cluster, *hers)).values()))
    assert (evicted <= 2) is kept
    assert evicted > 0


@KEPT
async def test_without_the_budget_of_a_cycle_more_kernels_go_at_once(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    at_once: list[int] = []

    async def noted(transaction: Transaction, plan: SchedulingPlan) -> RecordedPlan:
        at_once.append(len(plan.evictions))
        return await evict(transaction, plan)

    monkeypatch.setattr("sokovan.adapters.sql.snapshots.carried_state.evict", noted)
    await cluster.stored.put(evicting(**({"evictions_per_cycle": 1} if kept else {})), AT_ONCE)
    await cluster.agent("a1", slots=WHOLE_AGENT)
    names = [f"low{number}" for number in range(4)]
    for name in names:
        await cluster.submit(name, **{**FOUR, "slots": {"cpu": 1000}})
    await cluster.settle()
    for number in range(2):
        await cluster.submit(f"high{number}", priority=5, **{**FOUR, "slots": {"cpu": 1000}})
    await cluster.pass_time(5)
    assert at_once == ([1, 1] if kept else [2])


@KEPT
async def test_without_its_reservation_a_taker_takes_a_second_set_of_victims(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(CarriedState, "reserved_for", lambda *_: ())
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    for name in ("a1", "a2"):
        (await cluster.agent(name, slots=WHOLE_AGENT)).script.stubborn = True
    for name in ("low0", "low1"):
        await cluster.submit(name, **FOUR)
    await cluster.settle()
    # It waits longer, and may not evict for itself.
    await cluster.submit("older", priority=5, preemption=Preemption.NEVER, **FOUR)
    await cluster.submit("taker", priority=5, **FOUR)
    await cluster.pass_time(5)
    evicted = sum(map(len, (await eviction_times(cluster, "low0", "low1")).values()))
    assert evicted == (1 if kept else 2)


@KEPT
async def test_without_a_proof_slots_are_free_that_a_kernel_still_uses(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(TerminateSessions, "_proof", lambda *_: FreeProof.NEVER_SENT)
        monkeypatch.setattr(ledger, "_proof_problem", lambda *_: "")
    await low_and_high(cluster)
    agent = cluster.agents.all[A1]
    agent.script.stubborn = True
    await cluster.settle()
    assert agent.running() == ["low.0"]
    assert (await cluster.used("a1") == {"cpu": 4000}) is kept


@KEPT
async def test_without_a_notice_kernels_are_stopped_and_do_not_learn_why(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(terminate, "_notice", lambda _session: "")
    notices: list[str] = []
    stop = cluster.agents.stop_kernel

    async def noted(*asked: Any, notice: str, **more: Any) -> Any:
        notices.append(notice)
        return await stop(*asked, notice=notice, **more)

    monkeypatch.setattr(cluster.agents, "stop_kernel", noted)
    await low_and_high(cluster)
    await cluster.settle()
    assert notices
    assert all(notices) is kept


@KEPT
async def test_without_the_record_of_a_notice_it_is_sent_to_a_kernel_that_may_still_be_spared(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(terminate, "_may_be_withdrawn", lambda _session: False)
    await low_and_high(cluster)
    agent = cluster.agents.all[A1]
    agent.script.stubborn = True
    await cluster.settle()
    [receipt] = (await cluster.session("low")).evictions
    assert agent.requests["stop"] > 0
    assert (receipt.noticed_ms is not None) is kept
