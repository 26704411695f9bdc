"""EarliestStart: room is held from the earliest time on at which a session fits whole."""

from __future__ import annotations

from typing import Any

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import QueueName
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.domain.slots import SlotLimits
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.evictions.takers import cluster, runs
from tests.unit.scheduling.little_cluster import decide, session, verdict_of, where


def planned(*sessions: SessionWorkload, agents: tuple[str, ...] = (), **more: Any) -> SchedulingPlan:
    policy = {key: more.pop(key) for key in ("reserve_depth", "actions", "queue_policy") if key in more}
    return decide(cluster(*sessions, agents=agents, **more), **{"queue_policy": "capacity", **policy})


def starts(plan: SchedulingPlan) -> dict[str, tuple[int | None, tuple[str, ...]]]:
    return {str(one.session_id): (one.starts_ms, tuple(map(str, one.agents))) for one in plan.reservations}


def test_a_gang_gets_the_earliest_time_at_which_all_of_it_fits() -> None:
    plan = planned(
        runs("a1", "a", time_limit_ms=100), runs("b1", "b", time_limit_ms=300), runs("c1", "c", time_limit_ms=200),
        session("gang", "cpu=1", "cpu=1"),
    )  # fmt: skip
    assert starts(plan) == {"gang": (200, ("a", "c"))}
    assert verdict_of(plan, "gang").code is Code.RESERVED
    assert verdict_of(plan, "gang").summary.startswith("starts in 1s at the latest, room is reserved for it; now: ")


def test_a_queue_that_deserves_the_whole_cluster_holds_room_as_well() -> None:
    plan = planned(runs("a1", "a", time_limit_ms=100), session("head"), queue_policy="proportion")
    assert starts(plan) == {"head": (100, ("a",))}


def test_a_session_that_may_run_for_ever_leaves_no_time() -> None:
    plan = planned(runs("ever", "a"), runs("b1", "b", time_limit_ms=300), session("gang", "cpu=1", "cpu=1"))
    assert starts(plan) == {}
    assert verdict_of(plan, "gang").code is Code.NOT_ENOUGH_FREE


def test_only_the_first_session_of_each_queue_and_so_many_in_all_hold_room() -> None:
    waiting = [session(f"{queue}{index}", queue=queue) for queue in "xyz" for index in (1, 2)]
    running = [runs(name, name, time_limit_ms=100) for name in ("a", "b", "c")]
    assert set(starts(planned(*running, *waiting))) == {"x1", "y1", "z1"}
    assert set(starts(planned(*running, *waiting, reserve_depth=2))) == {"x1", "y1"}
    assert starts(planned(*running, *waiting, reserve_depth=0)) == {}


def test_two_holds_do_not_use_the_same_room_at_once() -> None:
    plan = planned(
        runs("a1", "a", time_limit_ms=100), session("one", queue="x", time_limit_ms=50), session("two", queue="y")
    )
    assert starts(plan) == {"one": (100, ("a",)), "two": (150, ("a",))}


def test_others_use_held_agents_if_they_end_by_then_or_leave_enough() -> None:
    running = runs("r", "a", slots="cpu=2", time_limit_ms=1000)
    gang = session("gang", "cpu=3", queue="x")
    others = [
        session("late", "cpu=2", queue="y", time_limit_ms=1001), session("small", "cpu=1", queue="z"),
        session("timely", "cpu=1", queue="z", time_limit_ms=1000),
    ]  # fmt: skip
    plan = planned(running, gang, *others, cpu=4)
    assert where(plan) == {"small.0": "a", "timely.0": "a"}
    assert starts(plan) == {"gang": (1000, ("a",))}


def test_a_session_that_would_not_end_in_time_is_told_for_whom_the_room_is_held() -> None:
    plan = planned(
        runs("r", "a", slots="cpu=2", time_limit_ms=1000), session("gang", "cpu=3"), session("late", "cpu=2"), cpu=4
    )
    verdict = verdict_of(plan, "late")
    assert verdict.code is Code.RESERVED_FOR_GANG
    assert verdict.summary == (
        "the room for cpu=2 on a is reserved for a session ahead in 1s, and it has no time limit"
    )
    assert ("reserved-for", "short", "gang") in verdict.checks


def test_a_reservation_in_time_keeps_its_agents_in_the_next_cycle() -> None:
    sessions = (
        runs("a1", "a", time_limit_ms=100), runs("b1", "b", time_limit_ms=100), session("head"), session("young"),
    )  # fmt: skip
    first = planned(*sessions)
    assert starts(first) == {"head": (100, ("a",))}
    again = planned(*sessions, reservations=first.reservations)
    assert again.reservations == first.reservations


def test_a_held_session_starts_as_soon_as_it_fits() -> None:
    sessions = (runs("b1", "b", time_limit_ms=100), session("old"), session("head"))
    held = planned(runs("a1", "a", time_limit_ms=100), runs("b1", "b", time_limit_ms=100), session("head")).reservations
    plan = planned(*sessions, agents=("a",), reservations=held)
    assert where(plan) == {"head.0": "a"}


def test_a_topology_is_kept_at_the_later_time() -> None:
    near = TopologyConstraint(TopologyMode.HARD, 1)
    plan = planned(
        runs("a1", "a", time_limit_ms=100), runs("b1", "b", time_limit_ms=900), runs("c1", "c", time_limit_ms=500),
        runs("d1", "d", time_limit_ms=400), session("gang", "cpu=1", "cpu=1", topology=near),
        hypernodes=(HyperNode("ab", 1, ("a", "b")), HyperNode("cd", 1, ("c", "d"))),
    )  # fmt: skip
    assert starts(plan) == {"gang": (500, ("c", "d"))}


def test_a_session_that_only_its_queue_stops_holds_nothing() -> None:
    queue = Queue(name=QueueName("q"), capability=SlotLimits({"cpu": 1000}))
    plan = planned(
        runs("r", "a", queue="q", time_limit_ms=100), session("s", queue="q"), session("t", "cpu=1", queue="p"),
        agents=("b", "c"), queues=(queue,), queue_policy="capacity",
    )  # fmt: skip
    assert starts(plan) == {}
    assert where(plan) == {"t.0": "b"}


def test_many_times_are_searched_by_halves() -> None:
    running = [runs(f"r{index:02}", f"a{index:02}", time_limit_ms=100 + index) for index in range(30)]
    plan = planned(*running, session("gang", *["cpu=1"] * 25, group_minimums={"": 25}))
    assert starts(plan)["gang"][0] == 124
