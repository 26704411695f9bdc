"""The order of a queue: priority, then sessions below their minimum, then rank."""

from __future__ import annotations

from collections import Counter

import pytest

from sokovan.scheduling.engine.pending_session import PendingSession
from sokovan.scheduling.engine.queue_order import QueueOrder, SessionHeap
from tests.unit.scheduling.engine.builders import EngineParts, agent, gang, owner


def pending(name: str, rank: int, *, user: str = "u", priority: int = 0, have: int = 0) -> PendingSession:
    engine = EngineParts(agent("a", "cpu=8"))
    made = engine.pending(gang(name, 3, "cpu=1", min_kernels=1, owner=owner(user), priority=priority))
    made.rank, made.have = rank, have
    return made


def names(waiting: SessionHeap | QueueOrder) -> list[str]:
    """All sessions in the order in which they are popped."""
    called = []
    while (one := waiting.pop()) is not None:
        called.append(str(one.session.session_id))
    return called


def by_user(share: Counter[str]) -> QueueOrder:
    return QueueOrder(lambda one: one.session.owner.user, lambda one: share[one.session.owner.user])


@pytest.mark.parametrize("waiting", [SessionHeap(), QueueOrder(lambda _: "all", lambda _: 0)], ids=["heap", "one key"])
def test_priority_comes_first_then_sessions_below_their_minimum_then_the_order(
    waiting: SessionHeap | QueueOrder,
) -> None:
    for one in (
        pending("second", 2),
        pending("grows", 0, have=1),
        pending("first", 1),
        pending("urgent-but-grows", 5, priority=9, have=1),
        pending("urgent", 9, priority=9),
    ):
        waiting.push(one)
    assert names(waiting) == ["urgent", "urgent-but-grows", "first", "second", "grows"]


@pytest.mark.parametrize("waiting", [SessionHeap(), QueueOrder(lambda _: "all", lambda _: 0)], ids=["heap", "one key"])
def test_an_order_by_plugin_comes_after_sessions_below_their_minimum_and_before_the_sequencer(
    waiting: SessionHeap | QueueOrder,
) -> None:
    late, early, grows = pending("late", 0), pending("early", 1), pending("grows", 2, have=1)
    late.order, early.order, grows.order = (2,), (1,), (0,)
    for one in (late, early, grows):
        waiting.push(one)
    assert names(waiting) == ["early", "late", "grows"]


def test_sessions_that_are_pushed_again_take_their_place_among_those_that_still_wait() -> None:
    waiting = SessionHeap()
    for one in (pending("c", 3), pending("a", 1), pending("e", 5)):
        waiting.push(one)
    first = waiting.pop()
    for one in (pending("d", 4), pending("b", 2), pending("f", 6)):
        waiting.push(one)
    assert first is not None
    assert [str(first.session.session_id), *names(waiting)] == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize("waiting", [SessionHeap(), by_user(Counter())], ids=["heap", "by key"])
def test_an_empty_queue_gives_no_session(waiting: SessionHeap | QueueOrder) -> None:
    assert waiting.pop() is None
    waiting.push(pending("s", 0))
    assert names(waiting) == ["s"]
    assert waiting.pop() is None


def test_keys_compete_by_share_and_keep_their_own_order() -> None:
    waiting = by_user(Counter(alice=5, bob=3))
    for one in (pending("a1", 0, user="alice"), pending("b1", 1, user="bob"), pending("b2", 2, user="bob")):
        waiting.push(one)
    assert names(waiting) == ["b1", "b2", "a1"]


def test_a_share_that_changes_with_every_placement_makes_keys_alternate() -> None:
    share: Counter[str] = Counter()
    waiting, called = by_user(share), []
    for rank, (name, user) in enumerate(
        [("a1", "alice"), ("a2", "alice"), ("a3", "alice"), ("b1", "bob"), ("b2", "bob")]
    ):
        waiting.push(pending(name, rank, user=user))
    while (one := waiting.pop()) is not None:
        called.append(one.session.session_id)
        share[one.session.owner.user] += 1
    assert called == ["a1", "b1", "a2", "b2", "a3"]


def test_a_share_changed_from_outside_counts_at_the_next_pop() -> None:
    share: Counter[str] = Counter()
    waiting = by_user(share)
    waiting.push(pending("a1", 0, user="alice"))
    waiting.push(pending("b1", 1, user="bob"))
    share["alice"] = 7
    assert names(waiting) == ["b1", "a1"]


def test_priority_comes_before_any_share() -> None:
    waiting = by_user(Counter(alice=99))
    waiting.push(pending("b1", 0, user="bob"))
    waiting.push(pending("a1", 1, user="alice", priority=1))
    assert names(waiting) == ["a1", "b1"]


def test_a_session_that_is_pushed_again_is_sorted_again() -> None:
    share = Counter(alice=1, bob=2)
    waiting = by_user(share)
    first, second = pending("a1", 0, user="alice"), pending("a2", 1, user="alice")
    for one in (first, second, pending("b1", 2, user="bob")):
        waiting.push(one)
    called = waiting.pop()
    assert called is first
    first.have = 1
    waiting.push(first)
    share["alice"] = 3
    assert names(waiting) == ["b1", "a2", "a1"]


def test_a_session_that_goes_before_the_head_of_its_key_is_not_popped_twice() -> None:
    waiting = by_user(Counter())
    for one in (pending("late", 5), pending("early", 1), pending("middle", 3)):
        waiting.push(one)
    assert names(waiting) == ["early", "middle", "late"]


def test_a_key_whose_share_falls_loses_no_session() -> None:
    share = Counter(alice=5, bob=4)
    waiting = by_user(share)
    waiting.push(pending("a1", 0, user="alice"))
    waiting.push(pending("b1", 1, user="bob"))
    share["alice"] = 3
    assert sorted(names(waiting)) == ["a1", "b1"]


def test_a_share_that_is_never_the_same_twice_does_not_stop_the_cycle() -> None:
    answers = iter(range(1000, 0, -1))
    waiting = QueueOrder(lambda one: one.session.owner.user, lambda _: next(answers))
    for rank, user in enumerate("ab"):
        waiting.push(pending(f"of-{user}", rank, user=user))
    assert sorted(names(waiting)) == ["of-a", "of-b"]
