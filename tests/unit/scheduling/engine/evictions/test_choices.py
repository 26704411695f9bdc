"""The outcome of a search: a refusal holds for lower priority and more kernels as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.scheduling.engine.evictions.choices import RefusalCache, TakerRefusal
from sokovan.scheduling.engine.evictions.rules import Protected
from sokovan.scheduling.engine.evictions.search import VictimSearch
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.evictions.takers import cluster, runs
from tests.unit.scheduling.little_cluster import decide, session, verdict_of

REFUSAL = TakerRefusal(Protected(priority=1))
MEMO = ("preempt", "default")


@pytest.mark.parametrize(("priority", "need", "known"), [(5, 2, 1), (4, 3, 1), (6, 2, 0), (5, 1, 0)])
def test_a_refusal_covers_lower_priority_and_more_kernels(priority: int, need: int, known: int) -> None:
    refusals = RefusalCache()
    refusals.put(MEMO, REFUSAL, priority=5, need=2)
    assert refusals.of(MEMO, priority=priority, need=need) == (REFUSAL if known else None)
    assert refusals.of(("reclaim",), priority=priority, need=need) is None
    refusals.clear()
    assert refusals.of(MEMO, priority=5, need=2) is None


def test_a_refusal_by_a_guarantee_is_that_of_just_so_many_kernels() -> None:
    refusals = RefusalCache()
    exact = REFUSAL._replace(exact=True)
    refusals.put(MEMO, exact, priority=5, need=2)
    assert refusals.of(MEMO, priority=5, need=3) is None
    assert refusals.of(MEMO, priority=4, need=2) == exact


def test_refusals_of_other_takers_are_kept_beside_each_other() -> None:
    refusals = RefusalCache()
    refusals.put(MEMO, REFUSAL, priority=1, need=1)
    refusals.put(MEMO, REFUSAL, priority=5, need=4)
    assert refusals.of(MEMO, priority=1, need=2) == refusals.of(MEMO, priority=5, need=9) == REFUSAL
    assert refusals.of(MEMO, priority=5, need=3) is None


def test_larger_gangs_are_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def search(self: VictimSearch) -> None:
        searched.append(self)

    monkeypatch.setattr(VictimSearch, "best", search)
    takers = [session(f"high{number}", *["cpu=1"] * number, priority=9 - number) for number in range(1, 5)]
    seen = cluster(*(runs(f"low{agent}", agent) for agent in "abcd"), *takers)
    plan = decide(seen, actions=("allocate", "preempt"), queue_policy="capacity")
    assert len(searched) == 1
    assert {verdict_of(plan, one.session_id).code for one in takers} == {Code.VICTIMS_PROTECTED}


def test_a_refused_taker_is_told_until_when_the_first_victim_is_protected() -> None:
    young = [replace(runs(f"s{at}", f"a{at}"), running_since_ms=at) for at in (9000, 5000)]
    starting = replace(runs("starting", "b"), starting=True)
    again = replace(runs("again", "c"), running_since_ms=0, evictions_ms=(1,))
    seen = cluster(*young, starting, again, session("high", priority=1), now_ms=10_000)
    verdict = verdict_of(decide(seen, actions=("allocate", "preempt"), queue_policy="capacity"), "high")
    assert verdict.summary == "preempt found no victims: 4 started too recently (until 1970-01-01T00:01:05Z)"
    assert verdict.until_ms == 65_000
    only = cluster(starting, session("high", priority=1), now_ms=10_000)
    verdict = verdict_of(decide(only, actions=("allocate", "preempt"), queue_policy="capacity"), "high")
    assert (verdict.summary, verdict.until_ms) == ("preempt found no victims: 1 started too recently", None)
