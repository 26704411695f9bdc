"""Which session of a queue goes next: priority, then who lacks its minimum, then the order."""

from __future__ import annotations

from collections import Counter

import pytest

from sokovan.scheduling.engine.pending_session import PendingSession
from sokovan.scheduling.engine.queue_order import QueueOrder, SessionHeap
from tests.unit.scheduling.engine.builders import Bench, agent, gang, owner


def job(name: str, rank: int, *, user: str = "u", priority: int = 0, have: int = 0) -> PendingSession:
    bench = Bench(agent("a", "cpu=8"))
    made = bench.job(gang(name, 3, "cpu=1", min_kernels=1, owner=owner(user), priority=priority))
    made.rank, made.have = rank, have
    return made


def names(waiting: SessionHeap | QueueOrder) -> list[str]:
    """Everybody in the order in which they are called."""
    called = []
    while (one := waiting.pop()) is not None:
        called.append(str(one.session.session_id))
    return called


def by_user(standing: Counter[str]) -> QueueOrder:
    return QueueOrder(lambda one: one.session.owner.user, lambda one: standing[one.session.owner.user])


@pytest.mark.parametrize("waiting", [SessionHeap(), QueueOrder(lambda _: "all", lambda _: 0)], ids=["line", "one lane"])
def test_priority_comes_first_then_who_lacks_its_minimum_then_the_order(waiting: SessionHeap | QueueOrder) -> None:
    for one in (
        job("second", 2),
        job("grows", 0, have=1),
        job("first", 1),
        job("urgent-but-grows", 5, priority=9, have=1),
        job("urgent", 9, priority=9),
    ):
        waiting.push(one)
    assert names(waiting) == ["urgent", "urgent-but-grows", "first", "second", "grows"]


@pytest.mark.parametrize("waiting", [SessionHeap(), QueueOrder(lambda _: "all", lambda _: 0)], ids=["line", "one lane"])
def test_an_order_by_plugin_comes_after_who_lacks_its_minimum_and_before_the_sequencer(
    waiting: SessionHeap | QueueOrder,
) -> None:
    late, early, grows = job("late", 0), job("early", 1), job("grows", 2, have=1)
    late.order, early.order, grows.order = (2,), (1,), (0,)
    for one in (late, early, grows):
        waiting.push(one)
    assert names(waiting) == ["early", "late", "grows"]


@pytest.mark.parametrize("waiting", [SessionHeap(), by_user(Counter())], ids=["line", "lanes"])
def test_where_nobody_waits_nobody_is_called(waiting: SessionHeap | QueueOrder) -> None:
    assert waiting.pop() is None
    waiting.push(job("s", 0))
    assert names(waiting) == ["s"]
    assert waiting.pop() is None


def test_lanes_compete_by_standing_and_keep_their_own_order() -> None:
    lanes = by_user(Counter(alice=5, bob=3))
    for one in (job("a1", 0, user="alice"), job("b1", 1, user="bob"), job("b2", 2, user="bob")):
        lanes.push(one)
    assert names(lanes) == ["b1", "b2", "a1"]


def test_a_standing_that_moves_with_every_placement_makes_lanes_take_turns() -> None:
    standing: Counter[str] = Counter()
    lanes, called = by_user(standing), []
    for rank, (name, user) in enumerate(
        [("a1", "alice"), ("a2", "alice"), ("a3", "alice"), ("b1", "bob"), ("b2", "bob")]
    ):
        lanes.push(job(name, rank, user=user))
    while (one := lanes.pop()) is not None:
        called.append(one.session.session_id)
        standing[one.session.owner.user] += 1
    assert called == ["a1", "b1", "a2", "b2", "a3"]


def test_a_standing_that_was_moved_from_elsewhere_counts_at_the_next_call() -> None:
    standing: Counter[str] = Counter()
    lanes = by_user(standing)
    lanes.push(job("a1", 0, user="alice"))
    lanes.push(job("b1", 1, user="bob"))
    standing["alice"] = 7
    assert names(lanes) == ["b1", "a1"]


def test_priority_stands_above_any_standing() -> None:
    lanes = by_user(Counter(alice=99))
    lanes.push(job("b1", 0, user="bob"))
    lanes.push(job("a1", 1, user="alice", priority=1))
    assert names(lanes) == ["a1", "b1"]


def test_a_session_that_comes_back_stands_where_it_belongs_by_now() -> None:
    standing = Counter(alice=1, bob=2)
    lanes = by_user(standing)
    first, second = job("a1", 0, user="alice"), job("a2", 1, user="alice")
    for one in (first, second, job("b1", 2, user="bob")):
        lanes.push(one)
    called = lanes.pop()
    assert called is first
    first.have = 1
    lanes.push(first)
    standing["alice"] = 3
    assert names(lanes) == ["b1", "a2", "a1"]


def test_a_session_that_goes_before_the_head_of_its_lane_is_not_called_twice() -> None:
    lanes = by_user(Counter())
    for one in (job("late", 5), job("early", 1), job("middle", 3)):
        lanes.push(one)
    assert names(lanes) == ["early", "middle", "late"]


def test_a_lane_whose_standing_improves_is_called_earlier() -> None:
    standing = Counter(alice=5, bob=4)
    lanes = by_user(standing)
    lanes.push(job("a1", 0, user="alice"))
    lanes.push(job("b1", 1, user="bob"))
    standing["alice"] = 3
    assert sorted(names(lanes)) == ["a1", "b1"]


def test_a_standing_that_is_never_the_same_twice_does_not_stop_the_cycle() -> None:
    answers = iter(range(1000, 0, -1))
    lanes = QueueOrder(lambda one: one.session.owner.user, lambda _: next(answers))
    for rank, user in enumerate("ab"):
        lanes.push(job(f"of-{user}", rank, user=user))
    assert sorted(names(lanes)) == ["of-a", "of-b"]
