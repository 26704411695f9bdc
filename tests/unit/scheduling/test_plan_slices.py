"""The snapshot beside what is left of a plan: its places, limits and shares are taken."""

from __future__ import annotations

from dataclasses import replace

from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.owners.policy import Scope
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.plan_slices import PlacedWorkloads, PlannedPlaces, with_planned, with_sessions
from sokovan.scheduling.snapshot import OwnerUsage, SystemSnapshot
from tests.unit.scheduling.little_cluster import agent, decide, kernel, limits, session, snapshot, started, where


def planned_by(plan: SchedulingPlan) -> dict[SessionId, PlannedPlaces]:
    places: dict[SessionId, dict[KernelId, AgentId]] = {}
    for one in plan.placements:
        places.setdefault(one.session_id, {})[one.kernel_id] = one.agent_id
    return {session_id: PlannedPlaces(agents) for session_id, agents in places.items()}


def beside(seen: SystemSnapshot, *newcomers: str, **policy: object) -> SchedulingPlan:
    """The plan for sessions that come while the first plan is not applied."""
    first = decide(seen)
    more = tuple(session(name, "cpu=2", submitted=100 + index) for index, name in enumerate(newcomers))
    grown = replace(seen, sessions=(*seen.sessions, *more), **policy)  # type: ignore[arg-type]  # fields of a snapshot
    return decide(with_planned(grown, planned_by(first), PlacedWorkloads()))


def test_a_newcomer_gets_no_place_that_is_planned() -> None:
    seen = snapshot([agent("a1"), agent("a2", "cpu=2")], [session("s1", "cpu=4")])
    assert where(decide(seen)) == {"s1.0": "a1"}
    assert where(beside(seen, "new", "late")) == {"new.0": "a2"}


def test_what_is_planned_counts_against_the_limits_of_its_owner() -> None:
    bounds = limits(Scope.USER, "default", "cpu=5")
    seen = snapshot([agent("a1", "cpu=16")], [session("s1", "cpu=4")], limits=bounds)
    assert started(beside(seen, "new")) == []
    assert started(beside(replace(seen, limits=limits(Scope.USER, "default", "cpu=6")), "new")) == ["new"]
    assert started(beside(replace(seen, limits=limits(Scope.USER, "default", sessions_max=1)), "new")) == []


def test_usage_is_added_to_what_owners_have() -> None:
    used = {Scope.USER: {"default": OwnerUsage(parse_slots("cpu=1"), 1)}}
    growing = session("grows", kernel("old", on="a1"), kernel("more"))
    seen = snapshot([agent("a1", used="cpu=1", kernel_count=1)], [growing, session("s1"), session("s2")], usage=used)
    planned = {
        SessionId(name): PlannedPlaces({KernelId(k): AgentId("a1")}) for name, k in (("grows", "more"), ("s1", "s1.0"))
    }
    after = with_planned(seen, planned, PlacedWorkloads())
    assert after.usage[Scope.USER]["default"] == OwnerUsage(parse_slots("cpu=3"), 2)
    assert (after.agents[0].occupied_slots, after.agents[0].kernel_count) == (parse_slots("cpu=3"), 3)
    assert [one.waits for one in after.sessions] == [False, False, True]


def test_a_planned_session_is_where_and_on_whose_loan_it_will_be_and_is_starting() -> None:
    seen, lender = snapshot([agent("a1")], [session("s1")]), QueueName("lender")
    places = PlannedPlaces({KernelId("s1.0"): AgentId("a1")}, "rack", lender)
    [placed] = with_planned(seen, {SessionId("s1"): places}, PlacedWorkloads()).sessions
    assert (placed.hypernode, placed.charged, placed.starting) == ("rack", lender, True)


def test_sessions_that_have_not_changed_are_placed_once() -> None:
    seen, placed = snapshot([agent("a1"), agent("a2")], [session("s1"), session("s2")]), PlacedWorkloads()
    planned = planned_by(decide(seen))
    first = with_planned(seen, planned, placed)
    again = with_planned(seen, planned, placed)
    assert all(one is other for one, other in zip(first.sessions, again.sessions, strict=True))
    changed = replace(seen, sessions=(replace(seen.sessions[0], priority=3), seen.sessions[1]))
    third = with_planned(changed, planned, placed)
    assert (third.sessions[0].priority, third.sessions[1] is first.sessions[1]) == (3, True)
    placed.keep([])
    assert with_planned(seen, planned, placed).sessions[1] is not first.sessions[1]


def test_the_tree_of_hypernodes_is_not_built_again() -> None:
    seen = snapshot([agent("a1")], [session("s1")])
    tree = seen.tree
    assert with_planned(seen, planned_by(decide(seen)), PlacedWorkloads()).tree is tree
    without = with_sessions(seen, ())
    assert (without.tree is tree, without.sessions) == (True, ())
