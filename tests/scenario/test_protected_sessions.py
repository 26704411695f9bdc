"""Loans, minimum run times and the cool-down, as a cycle keeps to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName, SessionId
from sokovan.domain.session import SessionType
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import Reservation, SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.evictions.takers import cluster, runs
from tests.unit.scheduling.little_cluster import decide, kernel, session, verdict_of, where

NOW = 1_000_000


def queue(name: str, deserved: int, guarantee: int = 0, **more: Any) -> Queue:
    amounts = SlotLimits({"cpu": deserved * 1000})
    return Queue(name=QueueName(name), deserved=amounts, guarantee=ResourceSlot({"cpu": guarantee * 1000}), **more)


def planned(action: str, *sessions: SessionWorkload, **more: Any) -> SchedulingPlan:
    seen = cluster(*sessions, **{"now_ms": NOW, **more})
    return decide(seen, actions=("allocate", action), queue_policy="capacity")


def gone(plan: SchedulingPlan) -> list[str]:
    return sorted(str(one.kernel_id) for one in plan.evictions)


@pytest.mark.parametrize(("ran_s", "expected"), [(59, []), (60, ["low.0"])])
def test_a_young_session_is_not_preempted(ran_s: int, expected: list[str]) -> None:
    low = runs("low", "a", running_since_ms=NOW - ran_s * 1000)
    plan = planned("preempt", low, session("high", priority=1))
    assert gone(plan) == expected
    if not expected:
        assert "1 started too recently" in verdict_of(plan, "high").summary


def test_the_run_time_doubles_with_each_eviction_of_the_last_day_up_to_eight_times() -> None:
    def plan(evictions: int, ran_s: int) -> list[str]:
        times = tuple(NOW - 900_000 - at for at in range(evictions))
        low = runs("low", "a", running_since_ms=NOW - ran_s * 1000, evictions_ms=times)
        return gone(planned("preempt", low, session("high", priority=1)))

    assert (plan(1, 119), plan(1, 120)) == ([], ["low.0"])
    assert (plan(5, 479), plan(5, 480)) == ([], ["low.0"])


def test_the_surplus_of_a_young_session_is_not_protected() -> None:
    low = runs("low", "a", "b", min_kernels=1, running_since_ms=NOW)
    assert len(gone(planned("preempt", low, session("high", priority=1)))) == 1
    assert gone(planned("preempt", low, session("high", "cpu=1", "cpu=1", priority=1))) == []


def test_a_session_that_is_starting_is_protected_until_it_runs() -> None:
    assert gone(planned("preempt", runs("low", "a", starting=True), session("high", priority=1))) == []


def test_a_queue_sets_the_run_time_of_its_sessions() -> None:
    low = runs("low", "a", running_since_ms=NOW - 5000, queue="q")
    high = session("high", priority=1, queue="q")
    assert gone(planned("preempt", low, high, queues=(queue("q", 1, min_runtime_s=5),))) == ["low.0"]
    assert gone(planned("preempt", low, high, queues=(queue("q", 1, min_runtime_s=6),))) == []


def lent(**more: Any) -> SessionWorkload:
    return runs("lent", "b", queue="batch", borrow=True, loan=QueueName("prod"), **more)


QUEUES = (queue("prod", 1, 1, return_s=30), queue("batch", 1))


def test_a_loan_comes_back_before_anything_else_is_taken() -> None:
    plan = planned(
        "reclaim",
        runs("own", "a", queue="batch"),
        lent(running_since_ms=NOW),
        session("serve", queue="prod"),
        queues=QUEUES,
    )
    assert gone(plan) == ["lent.0"]


def test_a_loan_does_not_count_for_the_share_of_the_borrower() -> None:
    third = session("third", queue="third")
    queues = (*QUEUES, queue("third", 1))
    plan = planned("reclaim", runs("own", "a", queue="batch"), lent(), third, queues=queues)
    assert gone(plan) == [], "batch is within its share without the loan, and prod with it"


def test_idle_guarantee_is_lent_to_sessions_that_return_it_in_time() -> None:
    def plan(**more: Any) -> SchedulingPlan:
        small = session("small", queue="batch", **more)
        return planned("reclaim", runs("own", "a", queue="batch"), small, agents=("b",), queues=QUEUES)

    lending = plan(borrow=True, grace_ms=30_000)
    assert where(lending) == {"small.0": "b"}
    assert lending.loans == {"small": "prod"}
    assert verdict_of(lending, "small").summary == "placed on b, on loan from queue prod, which has it back within 30s"
    assert where(plan(borrow=True, grace_ms=30_001)) == {}
    assert where(plan()) == {}


def test_nothing_is_lent_to_a_session_that_could_not_be_evicted_when_it_is_wanted_back() -> None:
    def lent(small: SessionWorkload) -> dict[str, str]:
        running = runs("own", "a", queue="batch")
        return where(planned("reclaim", running, small, agents=("b",), queues=QUEUES))

    assert lent(session("small", queue="batch", borrow=True)) == {"small.0": "b"}
    assert lent(session("small", queue="batch", borrow=True, preemptible=False)) == {}
    assert lent(session("small", kernel("kept", preemptible=False), queue="batch", borrow=True)) == {}
    assert lent(session("small", queue="batch", borrow=True, session_type=SessionType.SYSTEM)) == {}


def test_a_queue_that_gave_lately_takes_only_within_its_share_of_every_slot() -> None:
    queues = (queue("giver", 1), queue("other", 0))
    running = runs("r", "a", queue="other")
    taker = session("taker", "cpu=1 mem=1", queue="giver")
    seen = cluster(running, taker, queues=queues, now_ms=NOW)
    with_memory = replace(
        seen, agents=tuple(replace(a, available_slots=ResourceSlot({"cpu": 1000, "mem": 8})) for a in seen.agents)
    )

    def evicted(gave_ms: int) -> list[str]:
        given = replace(with_memory, gave_ms={"giver": gave_ms})
        return gone(decide(given, actions=("allocate", "reclaim"), queue_policy="capacity"))

    assert evicted(NOW - 300_000) == ["r.0"]
    assert evicted(NOW - 299_999) == []


def test_a_taker_has_one_set_of_victims_until_its_reservation_is_redeemed() -> None:
    held = (Reservation(SessionId("high"), ()),)
    plan = planned("preempt", runs("low", "a"), session("high", priority=1), reservations=held)
    assert gone(plan) == []
    assert verdict_of(plan, "high").code is Code.NOT_ENOUGH_FREE


def test_a_session_with_a_start_in_time_still_preempts_and_gives_it_up() -> None:
    plan = planned("preempt", runs("low", "a", time_limit_ms=900_000), session("high", priority=1))
    assert gone(plan) == ["low.0"]
    assert [(one.session_id, one.starts_ms) for one in plan.reservations] == [("high", None)]
