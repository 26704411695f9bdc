"""Waiting requests are served round robin over keys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sokovan.proxy.routing.request_queue import RequestQueue


def test_a_key_with_many_requests_does_not_delay_another() -> None:
    queue: RequestQueue[str] = RequestQueue()
    for waiting in ("a1", "a2", "a3"):
        queue.add("a", waiting)
    queue.add("b", "b1")

    assert [queue.take() for _ in range(4)] == ["a1", "b1", "a2", "a3"]
    assert queue.first() is None


def test_a_request_that_leaves_frees_its_place() -> None:
    queue: RequestQueue[str] = RequestQueue()
    queue.add("a", "a1")
    queue.add("b", "b1")
    queue.remove("a", "a1")

    assert queue.length == 1
    assert queue.first() == "b1"
    assert queue.all() == ["b1"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2))))
def test_nothing_is_lost_and_each_key_keeps_its_order(steps: list[tuple[str, int]]) -> None:
    queue: RequestQueue[tuple[str, int]] = RequestQueue()
    waiting: list[tuple[str, int]] = []
    for number, (key, step) in enumerate(steps):
        own = [one for one in waiting if one[0] == key]
        if step == 0 or not waiting:
            queue.add(key, (key, number))
            waiting.append((key, number))
        elif step == 1:
            taken = queue.take()
            assert taken == next(one for one in waiting if one[0] == taken[0])
            waiting.remove(taken)
        elif own:
            queue.remove(key, own[-1])
            waiting.remove(own[-1])
        assert queue.length == len(waiting)
        assert sorted(queue.all()) == sorted(waiting)
