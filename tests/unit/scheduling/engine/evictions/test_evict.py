"""The actions preempt and reclaim, as a cycle runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import QueueName
from sokovan.domain.lifecycle.eviction import EvictionCost
from sokovan.domain.session import Preemption, TopologyConstraint, TopologyMode
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.engine.evictions.rules import EvictionOptions
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.evictions.takers import cluster, runs
from tests.unit.scheduling.little_cluster import decide, kernel, session, slot_limits, verdict_of


def preempted(*sessions: SessionWorkload, agents: tuple[str, ...] = (), **policy: Any) -> SchedulingPlan:
    actions = policy.pop("actions", ("allocate", "preempt"))
    return decide(cluster(*sessions, agents=agents), actions=actions, queue_policy="capacity", **policy)


def gone(plan: SchedulingPlan) -> list[str]:
    return [str(one.kernel_id) for one in plan.evictions]


def test_the_taker_is_reserved_and_starts_nothing_in_this_cycle() -> None:
    plan = preempted(runs("low", "a"), session("high", priority=1))
    assert gone(plan) == ["low.0"]
    assert [(one.session_id, one.agents) for one in plan.reservations] == [("high", ("a",))]
    assert plan.placements == ()
    assert verdict_of(plan, "high").code is Code.RESERVED


def test_a_taker_is_told_that_others_have_to_leave_and_not_that_they_do() -> None:
    one = preempted(runs("low", "a"), session("high", priority=1))
    told = "waits for the room of 1 kernel that has to leave for it; 1 kernel has a reservation"
    assert verdict_of(one, "high").summary == told
    two = preempted(runs("low", "a"), runs("more", "b"), session("high", "cpu=1", "cpu=1", priority=1))
    told = "waits for the room of 2 kernels that have to leave for it; 2 kernels have a reservation"
    assert verdict_of(two, "high").summary == told


def test_an_eviction_has_its_rule_its_cost_and_that_of_the_next_best() -> None:
    plan = preempted(runs("low", "a", grace_ms=9000), runs("more", "b", priority=1), session("high", priority=2))
    [one] = plan.evictions
    assert (one.kernel_id, one.rule, one.notice_ms) == ("low.0", "priority", 9000)
    cost = EvictionCost(
        only_loans=False, whole_gangs=1, queue_distance=0, queue_priority=0, priority=0, kernel_priority=0,
        lost_slot_minutes=0, kernels=1,
    )  # fmt: skip
    assert (one.cost, one.runner_up) == (cost, replace(cost, priority=1))


def test_a_loan_returns_within_the_time_of_its_lender() -> None:
    on_loan = replace(runs("borrower", "a", queue="theirs", grace_ms=9000), loan=QueueName("mine"))
    lender = queue("mine", "cpu=1", guarantee=parse_slots("cpu=1"), return_s=5)
    [one] = reclaimed(on_loan, session("taker", queue="mine"), queues=(lender,)).evictions
    assert (one.rule, one.notice_ms, one.cost and one.cost.only_loans) == ("loan", 5000, True)


def test_a_refused_taker_gets_the_number_of_kernels_that_each_rule_protects() -> None:
    plan = preempted(runs("equal", "a", priority=1), runs("kept", "b", preemptible=False), session("high", priority=1))
    verdict = verdict_of(plan, "high")
    assert verdict.code is Code.VICTIMS_PROTECTED
    assert verdict.summary == "preempt found no victims: 1 not of lower priority, 1 not preemptible"
    assert gone(plan) == []


def test_a_taker_that_its_queue_refuses_is_told_so_besides_why_nobody_is_evicted() -> None:
    limit = queue("mine", "cpu=1", capability=slot_limits("cpu=1"))
    own = runs("own", "a", queue="mine", priority=5)
    plan = reclaimed(own, runs("other", "b", queue="over"), session("taker", queue="mine"), queues=(limit,))
    verdict = verdict_of(plan, "taker")
    assert verdict.code is Code.VICTIMS_PROTECTED
    assert verdict.summary.startswith("queue mine uses 1 cpu and may use 1; 1 more would exceed it; reclaim found no")


def test_a_taker_that_would_exceed_its_share_is_told_that_it_may_not_reclaim() -> None:
    queues = (queue("mine", "cpu=1"), queue("over", "cpu=1"))
    over = [runs("one", "a", queue="over"), runs("two", "b", queue="over")]
    plan = reclaimed(*over, session("taker", "cpu=1", "cpu=1", queue="mine"), queues=queues)
    text = verdict_of(plan, "taker").summary
    assert text == "reclaim found no victims: 2 only for queues that stay within what they deserve"


def test_a_session_that_may_not_evict_waits_as_before() -> None:
    plan = preempted(runs("low", "a"), session("meek", priority=1, preemption=Preemption.NEVER))
    assert (gone(plan), verdict_of(plan, "meek").code) == ([], Code.NOT_ENOUGH_FREE)


def test_a_plan_over_the_budget_is_not_taken_in_part() -> None:
    options = EvictionOptions(evictions_per_cycle=1)
    plan = preempted(
        runs("one", "a"), runs("two", "b"), session("high", "cpu=1", "cpu=1", priority=1), eviction_options=options
    )
    assert gone(plan) == []
    assert "2 beyond the number of evictions of a cycle" in verdict_of(plan, "high").summary


def lends(cpu: int) -> Queue:
    return queue("mine", f"cpu={cpu}", guarantee=parse_slots(f"cpu={cpu}"))


def test_a_recall_is_not_limited_by_the_number_of_evictions_of_a_cycle() -> None:
    on_loan = replace(runs("borrower", "a", "b", queue="theirs"), loan=QueueName("mine"))
    takers = [session("lender", "cpu=1", "cpu=1", queue="mine"), session("high", queue="other", priority=1)]
    plan = reclaimed(
        on_loan, runs("low", "c", queue="other"), *takers, queues=(lends(2), queue("other", "cpu=1")),
        actions=("allocate", "reclaim", "preempt"), eviction_options=EvictionOptions(evictions_per_cycle=1),
    )  # fmt: skip
    # Nor does it leave less of that number to others.
    assert sorted(gone(plan)) == ["borrower.0", "borrower.1", "low.0"]
    none = EvictionOptions(evictions_per_cycle=0)
    assert gone(reclaimed(on_loan, takers[0], queues=(lends(2),), eviction_options=none)) == [
        "borrower.0",
        "borrower.1",
    ]


def test_two_takers_take_different_victims_and_the_third_none() -> None:
    takers = [session(f"high{number}", priority=1) for number in range(3)]
    plan = preempted(runs("one", "a"), runs("two", "b"), *takers)
    assert sorted(gone(plan)) == ["one.0", "two.0"]
    assert [one.session_id for one in plan.reservations] == ["high0", "high1"]
    assert verdict_of(plan, "high2").code in {Code.NOT_ENOUGH_FREE, Code.VICTIMS_PROTECTED}


def test_a_session_that_was_evicted_is_not_a_taker_in_the_same_cycle() -> None:
    broken = session("broken", kernel("b.0", on="a"), kernel("b.1"), priority=1)
    plan = preempted(broken, runs("lowest", "b"), session("high", "cpu=1", "cpu=1", priority=2))
    assert sorted(gone(plan)) == ["b.0", "lowest.0"]
    assert verdict_of(plan, "broken").code is Code.EVICTED


@pytest.mark.parametrize("actions", [("preempt", "allocate"), ("allocate", "preempt")])
def test_idle_room_is_left_to_allocate(actions: tuple[str, ...]) -> None:
    plan = preempted(runs("low", "a"), session("high", priority=1), agents=("b",), actions=actions)
    assert (gone(plan), [one.agent_id for one in plan.placements]) == ([], ["b"])


@pytest.mark.parametrize(("user", "named"), [("ann", "high"), ("bob", "a session of another user")])
def test_the_reason_of_the_evicted_names_no_session_of_another_user(user: str, named: str) -> None:
    broken = session("broken", kernel("b.0", on="a"), kernel("b.1"), priority=1, user="ann")
    plan = preempted(broken, session("high", priority=2, user=user))
    assert verdict_of(plan, "broken").summary == f"kernels of it were evicted in this cycle for {named}"


def reclaimed(*sessions: SessionWorkload, queues: tuple[Queue, ...], cpu: int = 1, **policy: Any) -> SchedulingPlan:
    seen = cluster(*sessions, cpu=cpu, queues=queues)
    actions = policy.pop("actions", ("allocate", "reclaim"))
    return decide(seen, actions=actions, queue_policy="capacity", **policy)


def queue(name: str, deserved: str, **more: Any) -> Queue:
    return Queue(QueueName(name), deserved=slot_limits(deserved), **more)


@pytest.mark.parametrize(("guaranteed", "expected"), [("cpu=2", []), ("cpu=1", ["big.0"])])
def test_nothing_is_reclaimed_that_a_queue_is_guaranteed(guaranteed: str, expected: list[str]) -> None:
    running = (runs("big", "a", slots="cpu=2", queue="over"), runs("rest", "b", queue="over", preemptible=False))
    queues = (queue("over", "cpu=2", guarantee=parse_slots(guaranteed)), queue("mine", "cpu=2"))
    plan = reclaimed(*running, session("taker", "cpu=2", queue="mine"), queues=queues, cpu=2)
    assert gone(plan) == expected
    if not expected:
        assert "1 guaranteed to the queue" in verdict_of(plan, "taker").summary


@pytest.mark.parametrize(("guaranteed", "expected"), [("cpu=2", []), ("cpu=1", ["low.0"])])
def test_nothing_is_reclaimed_that_a_queue_above_is_guaranteed(guaranteed: str, expected: list[str]) -> None:
    above = queue("above", "cpu=2", guarantee=parse_slots(guaranteed))
    child = queue("child", "cpu=0", parent=QueueName("above"))
    # The third agent leaves enough that is guaranteed to nobody for the taker.
    running = (
        runs("low", "a", queue="child"),
        runs("more", "b", queue="child", preemptible=False),
        runs("third", "c", queue="third"),
    )
    queues = (above, child, queue("mine", "cpu=1"), queue("third", "cpu=1"))
    plan = reclaimed(*running, session("taker", queue="mine"), queues=queues, hierarchy=True)
    assert gone(plan) == expected


@pytest.mark.parametrize(("limit", "expected"), [("cpu=2", []), ("cpu=3", ["over.0", "over.1"])])
def test_a_taker_beyond_the_limit_of_a_queue_above_reclaims_nothing(limit: str, expected: list[str]) -> None:
    running = (runs("over", "a", "b", queue="over"), runs("sister", "c", queue="sister"))
    above = queue("above", "cpu=2", capability=slot_limits(limit))
    sister, mine = (queue(name, "cpu=2", parent=QueueName("above")) for name in ("sister", "mine"))
    taker = session("taker", "cpu=1", "cpu=1", queue="mine")
    plan = reclaimed(*running, taker, queues=(queue("over", "cpu=1"), above, sister, mine), hierarchy=True)
    assert gone(plan) == expected


def test_the_room_of_a_hard_topology_is_in_one_hypernode_also_if_there_is_idle_room_elsewhere() -> None:
    racks = (HyperNode("h0", 1, ("a", "b")), HyperNode("h1", 1, ("c", "d")))
    running = (runs("kept", "b", preemptible=False), runs("low", "c"), runs("lower", "d"))
    near = TopologyConstraint(TopologyMode.HARD, 1)
    taker = session("taker", "cpu=1", "cpu=1", priority=1, topology=near)
    seen = cluster(*running, taker, agents=("a",), hypernodes=racks)
    plan = decide(seen, actions=("allocate", "preempt"), queue_policy="capacity")
    assert gone(plan) == ["low.0", "lower.0"]
    assert [set(one.agents) for one in plan.reservations] == [{"c", "d"}]
