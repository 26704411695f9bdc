"""The extension points of evictions: each narrows who takes from whom, and none can stop the cycle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName
from sokovan.scheduling.extensions import EVICTION_POINTS, EvictableKernel, GangView, QueueView, SchedulingPlugin
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.evictions.takers import cluster, runs
from tests.unit.scheduling.little_cluster import decide, plugin_with, registry_with, session, slot_limits, verdict_of

QUEUES = tuple(Queue(name=QueueName(name), deserved=slot_limits("cpu=1")) for name in ("mine", "theirs", "others"))


def with_plugin(seen: SystemSnapshot, action: str = "preempt", /, **points: Callable[..., object]) -> SchedulingPlan:
    """The plan when one plugin overrides these points."""
    registry = registry_with(plugin_with(**points)) if points else registry_with()
    return decide(seen, registry, queue_policy="capacity", actions=("allocate", action))


def gone(plan: SchedulingPlan) -> list[str]:
    return sorted(str(one.kernel_id) for one in plan.evictions)


def two_victims() -> SystemSnapshot:
    """A session of priority 0 and one of priority 1, and one that takes room from either."""
    return cluster(runs("low", "a"), runs("middle", "b", priority=1), session("taker", priority=5))


def three_queues() -> SystemSnapshot:
    """Two queues with twice what they deserve, and a session of a third one that waits."""
    return cluster(
        runs("one", "a", "b", queue="theirs", min_kernels=1),
        runs("two", "c", "d", queue="others", min_kernels=1),
        session("taker", queue="mine"),
        queues=QUEUES,
    )


def not_low(_taker: SessionWorkload, *more: object) -> list[EvictableKernel]:
    """Every victim but those of the session `low`."""
    victims = more[-1]
    assert isinstance(victims, list)
    return [victim for victim in victims if victim.session.session_id != "low"]


def nobody(*_arguments: object) -> list[EvictableKernel]:
    return []


def test_session_starving_says_which_sessions_evict() -> None:
    views: list[GangView] = []

    def watched(gang: GangView) -> bool:
        views.append(gang)
        return gang.session.session_id != "taker"

    assert gone(with_plugin(two_victims())) == ["low.0"]
    plan = with_plugin(two_victims(), session_starving=watched)
    assert (gone(plan), verdict_of(plan, "taker").code) == ([], Code.NOT_ENOUGH_FREE)
    assert [(one.session.session_id, one.minimum, one.running) for one in views] == [("taker", 1, 0)]


@pytest.mark.parametrize("point", ["preemptable", "evictable"])
def test_a_plugin_keeps_victims_from_preempt(point: str) -> None:
    assert gone(with_plugin(two_victims(), **{point: not_low})) == ["middle.0"]


@pytest.mark.parametrize("point", ["reclaimable", "evictable"])
def test_a_plugin_keeps_victims_from_reclaim(point: str) -> None:
    def not_theirs(*arguments: Sequence[EvictableKernel]) -> list[EvictableKernel]:
        return [victim for victim in arguments[-1] if victim.queue != "theirs"]

    assert gone(with_plugin(three_queues(), "reclaim")) == ["one.0"]
    assert gone(with_plugin(three_queues(), "reclaim", **{point: not_theirs})) == ["two.0"]


@pytest.mark.parametrize(("action", "other"), [("preempt", "reclaimable"), ("reclaim", "preemptable")])
def test_the_point_of_another_action_is_not_asked(action: str, other: str) -> None:
    seen = two_victims() if action == "preempt" else three_queues()
    assert gone(with_plugin(seen, action, **{other: nobody})) == gone(with_plugin(seen, action))


def test_what_plugins_keep_is_counted_in_the_verdict() -> None:
    verdict = verdict_of(with_plugin(two_victims(), evictable=nobody), "taker")
    assert verdict.code is Code.VICTIMS_PROTECTED
    assert verdict.summary == "preempt found no victims: 2 kept by a plugin"


def test_plugins_filter_in_turn() -> None:
    shown: list[list[str]] = []

    def watched(_taker: SessionWorkload, victims: Sequence[EvictableKernel]) -> Sequence[EvictableKernel]:
        shown.append([str(victim.kernel.kernel_id) for victim in victims])
        return victims

    first, second = plugin_with(preemptable=not_low), plugin_with(preemptable=watched)
    second.name = "second"
    decide(two_victims(), registry_with(first, second), queue_policy="capacity", actions=("allocate", "preempt"))
    assert shown == [["middle.0"]]


def test_a_plugin_sees_what_a_victim_would_lose_and_which_queue_it_counts_for() -> None:
    seen: list[EvictableKernel] = []

    def watched(_taker: SessionWorkload, action: str, victims: Sequence[EvictableKernel]) -> Sequence[EvictableKernel]:
        assert action == "preempt"
        seen.extend(victims)
        return victims

    low = replace(runs("low", "a"), running_since_ms=0, checkpoint_ms=70_000)
    with_plugin(cluster(low, session("taker", priority=5), now_ms=100_000), evictable=watched)
    assert [(one.session.session_id, one.queue, one.lost_s) for one in seen] == [("low", "default", 30)]


def test_a_kernel_that_a_plugin_keeps_saves_the_gang_that_is_not_whole_without_it() -> None:
    gang, lone = runs("gang", "a", "b"), runs("lone", "c", priority=1)
    seen = cluster(gang, lone, session("taker", priority=5))
    assert gone(with_plugin(seen)) == ["gang.0", "gang.1"]

    def not_the_second(_taker: SessionWorkload, victims: Sequence[EvictableKernel]) -> list[EvictableKernel]:
        return [victim for victim in victims if victim.kernel.kernel_id != "gang.1"]

    assert gone(with_plugin(seen, preemptable=not_the_second)) == ["lone.0"]


def test_preemptive_says_whether_a_queue_reclaims_for_a_session() -> None:
    def never(queue: QueueView, one: SessionWorkload) -> bool:
        return (queue.name, str(one.session_id)) != ("mine", "taker")

    plan = with_plugin(three_queues(), "reclaim", preemptive=never)
    assert gone(plan) == []
    assert verdict_of(plan, "taker").summary == "reclaim found no victims: 4 kept by a plugin"
    assert gone(with_plugin(two_victims(), preemptive=never)) == ["low.0"]


def test_a_loan_comes_back_whatever_plugins_say() -> None:
    borrower = replace(runs("borrower", "a", queue="theirs"), loan=QueueName("mine"))
    seen = cluster(borrower, session("taker", queue="mine"), queues=QUEUES)
    for point, answer in (("preemptive", lambda *_: False), ("reclaimable", nobody), ("evictable", nobody)):
        assert gone(with_plugin(seen, "reclaim", **{point: answer})) == ["borrower.0"]


@pytest.mark.parametrize("many", [False, True])
def test_victim_queue_order_says_which_queue_gives_first(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if many:
        monkeypatch.setattr("sokovan.scheduling.engine.evictions.search.SETS_MAX", 0)

    def others_first(taker: QueueView, giver: QueueView) -> tuple[int, ...]:
        assert taker.name == "mine"
        return (0 if giver.name == "others" else 1,)

    assert gone(with_plugin(three_queues(), "reclaim")) == ["one.0"]
    assert gone(with_plugin(three_queues(), "reclaim", victim_queue_order=others_first)) == ["two.0"]


def raising_for_bad(point: str) -> dict[str, Callable[..., object]]:
    """A plugin that raises at a point for the session or the queue `bad`."""
    own = getattr(SchedulingPlugin(), point)

    def answer(*arguments: object) -> object:
        first = arguments[0]
        name = first.session.session_id if isinstance(first, GangView) else getattr(first, "name", "")
        if "bad" in {name, getattr(first, "session_id", "")}:
            raise RuntimeError("out of cheese")
        return own(*arguments)

    return {point: answer}


@pytest.mark.parametrize("point", EVICTION_POINTS)
def test_a_plugin_that_raises_costs_the_taker_its_victims_and_no_other(point: str) -> None:
    action = "preempt" if point == "preemptable" else "reclaim"
    queues = (*QUEUES, Queue(name=QueueName("bad"), deserved=slot_limits("cpu=1")))
    names = ("default", "default") if action == "preempt" else ("bad", "mine")
    wide = runs("wide", "a", "b", "c", queue="default" if action == "preempt" else "theirs", min_kernels=1)
    takers = [session(one, queue=queue, priority=1) for one, queue in zip(("bad", "good"), names, strict=True)]
    plan = with_plugin(cluster(wide, *takers, queues=queues), action, **raising_for_bad(point))
    assert {str(one.for_session) for one in plan.evictions} == {"good"}
    verdict = verdict_of(plan, "bad")
    assert verdict.code is Code.PLUGIN_FAILED
    assert verdict.summary == f"plugin tester failed in {point}: RuntimeError: out of cheese"


@pytest.mark.parametrize("answer", [None, ["low.0"], 7])
def test_an_answer_of_the_wrong_kind_is_a_failure_of_the_plugin(answer: object) -> None:
    verdict = verdict_of(with_plugin(two_victims(), preemptable=lambda *_: answer), "taker")
    assert verdict.code is Code.PLUGIN_FAILED
    assert verdict.summary.startswith("plugin tester failed in preemptable: ")


def test_equal_takers_are_asked_about_one_by_one() -> None:
    def only_second(taker: SessionWorkload, victims: Sequence[EvictableKernel]) -> Sequence[EvictableKernel]:
        return victims if taker.session_id == "second" else []

    seen = cluster(runs("low", "a"), session("first", priority=5), session("second", priority=5))
    assert [str(one.for_session) for one in with_plugin(seen, preemptable=only_second).evictions] == ["second"]


def test_a_plugin_without_these_points_changes_nothing() -> None:
    seen = cluster(runs("wide", "a", "b", min_kernels=1), session("taker", priority=5))
    assert with_plugin(seen, overused=lambda _queue: False).evictions == with_plugin(seen).evictions
