"""OwnerBudget: how many kernels of a user may be evicted in an hour."""

from __future__ import annotations

from sokovan.scheduling.engine.evictions.rules import EvictionOptions
from sokovan.scheduling.engine.timing.owner_budget import OwnerBudget
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import SessionWorkload
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import decide, session, verdict_of

HERS = tuple(runs(f"hers{at}", at, user="ann") for at in "abcd")


def preempted(*sessions: SessionWorkload, lately: int = 0) -> SchedulingPlan:
    seen = cluster(*sessions, evicted_lately={"ann": lately})
    return decide(seen, actions=("allocate", "preempt"), queue_policy="capacity")


def gone(plan: SchedulingPlan) -> list[str]:
    return sorted(str(one.session_id) for one in plan.evictions)


def taker(count: int, user: str = "bob") -> SessionWorkload:
    return session("taker", *["cpu=1"] * count, user=user, priority=1)


def test_half_of_the_kernels_of_a_user_may_go_in_an_hour() -> None:
    assert gone(preempted(*HERS, taker(2))) == ["hersa", "hersb"]
    assert gone(preempted(*HERS, taker(3))) == []
    assert gone(preempted(*HERS, taker(2), lately=1)) == []
    assert gone(preempted(*HERS, taker(1), lately=1)) == ["hersa"]


def test_one_session_may_always_go_if_none_went_in_the_last_hour() -> None:
    alone = runs("alone", "a", "b", user="ann")
    assert gone(preempted(alone, taker(2))) == ["alone", "alone"]
    assert gone(preempted(alone, taker(2), lately=1)) == []


def test_takers_of_the_same_user_are_not_limited() -> None:
    assert len(gone(preempted(*HERS, taker(4, user="ann")))) == 4


def test_victims_of_other_users_are_sought_beyond_a_budget() -> None:
    others = [runs(f"other{at}", at, user="eve", priority=0) for at in "efgh"]
    plan = preempted(*HERS, *others, taker(2), lately=2)
    assert gone(plan) == ["othere", "otherf"]


def test_the_verdict_counts_what_a_budget_protects() -> None:
    plan = preempted(*HERS, taker(3))
    assert "4 beyond the number of evictions of a cycle or an owner" in verdict_of(plan, "taker").summary


def test_what_takers_of_a_cycle_take_counts_together() -> None:
    parts = TakerParts(cluster(*HERS, taker(1)))
    budget = OwnerBudget(cluster(*HERS), 50)
    assert budget.exceeded_by(parts.pending.session, HERS[:2], parts.table.kernels_of) == set()
    budget.spend(parts.pending.session, HERS[:2])
    assert budget.exceeded_by(parts.pending.session, HERS[2:3], parts.table.kernels_of) == {"ann"}


def test_a_set_that_is_not_taken_leaves_the_budget_of_its_owner_to_the_next_taker() -> None:
    large = session("large", "cpu=1", "cpu=1", user="bob", priority=2)
    seen = cluster(*HERS, large, taker(1))
    options = EvictionOptions(evictions_per_cycle=1)
    plan = decide(seen, actions=("allocate", "preempt"), queue_policy="capacity", eviction_options=options)
    assert [(one.session_id, one.for_session) for one in plan.evictions] == [("hersa", "taker")]


def test_what_a_user_takes_from_himself_leaves_his_budget_to_others() -> None:
    parts = TakerParts(cluster(*HERS, taker(1, user="ann")))
    budget = OwnerBudget(cluster(*HERS), 50)
    budget.spend(parts.pending.session, HERS[:2])
    assert budget.exceeded_by(taker(1), HERS[2:3], parts.table.kernels_of) == set()
