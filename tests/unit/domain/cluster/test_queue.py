"""Queues: a tree in which only leaves run work, under a root that need not be listed."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState, QueueTree
from sokovan.domain.errors import InvalidQueues
from sokovan.domain.ids import QueueName
from sokovan.domain.slot_notation import parse_slots
from sokovan.domain.slots import NO_LIMITS, NO_SLOTS, ResourceSlot, SlotLimits


def tree(*lines: str) -> QueueTree:
    """Queues written as `name` or `name < parent`."""
    pairs = [line.split(" < ") for line in lines]
    return QueueTree(
        Queue(QueueName(pair[0]), parent=QueueName(pair[-1] if pair[1:] else ROOT_QUEUE)) for pair in pairs
    )


def above(queues: QueueTree, name: str) -> list[str]:
    return [queue.name for queue in queues.ancestors(name)]


def test_a_queue_is_open_reclaimable_of_weight_one_and_without_limits_by_default() -> None:
    queue = Queue(QueueName("q"))
    assert (queue.weight, queue.priority, queue.state, queue.parent) == (1, 0, QueueState.OPEN, ROOT_QUEUE)
    assert queue.reclaimable
    assert (queue.capability, queue.deserved, queue.guarantee) == (NO_LIMITS, NO_LIMITS, NO_SLOTS)


def test_a_flat_list_of_queues_is_all_leaves() -> None:
    queues = tree("a", "b")
    assert queues.is_leaf("a")
    assert above(queues, "a") == []
    assert not queues.is_leaf(ROOT_QUEUE)


def test_a_child_may_be_listed_before_its_parent() -> None:
    queues = tree("team < unit", "unit < company", "company")
    assert above(queues, "team") == ["unit", "company"]
    assert [queue.name for queue in queues if queues.is_leaf(queue.name)] == ["team"]


def test_a_root_that_is_listed_stands_above_all() -> None:
    queues = tree("team < unit", "unit", "root")
    assert above(queues, "team") == ["unit", "root"]
    assert above(queues, "root") == []
    assert not queues.is_leaf("root")


def test_a_root_may_have_limits_of_its_own() -> None:
    root = Queue(ROOT_QUEUE, capability=SlotLimits({"cpu": 4000}))
    assert [queue.capability["cpu"] for queue in QueueTree([root, Queue(QueueName("q"))]).ancestors("q")] == [4000]


def test_a_queue_is_found_by_name_and_a_stranger_is_not() -> None:
    queues = tree("a")
    assert "a" in queues
    assert queues.get("a") == Queue(QueueName("a"))
    assert "b" not in queues
    assert queues.get("b") is None
    assert above(queues, "b") == []


def test_queues_keep_the_order_they_were_given_in() -> None:
    assert [queue.name for queue in tree("b", "a", "c")] == ["b", "a", "c"]


def test_guarantee_deserved_and_capability_may_be_the_same_and_are_compared_slot_by_slot() -> None:
    same = SlotLimits({"cpu": 1000})
    queue = Queue(QueueName("q"), capability=same, deserved=same, guarantee=ResourceSlot({"cpu": 1000, "mem": 10**12}))
    assert queue.guarantee["mem"] == 10**12


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("a < b", "b < c", "c < a"), "queue 'a' is under itself: 'a in b in c in a'"),
        (("x < a", "a < b", "b < a"), "queue 'a' is under itself: 'a in b in a'"),
        (("a < b",), "queue 'a' has a parent 'b' that does not exist"),
        (("a", "a"), "queue 'a' is given twice"),
        (("a < a",), "queue 'a' is its own parent"),
        (("root < a", "a"), "queue 'root' is above all and cannot be under 'a'"),
    ],
)
def test_queues_that_form_no_tree_are_refused(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidQueues) as refusal:
        tree(*lines)
    assert refusal.value.message == message


@pytest.mark.slow
def test_a_long_chain_of_queues_is_read_in_one_go() -> None:
    length = 20_000
    chain = tree("q0", *[f"q{number} < q{number - 1}" for number in range(1, length)])
    assert len(above(chain, f"q{length - 1}")) == length - 1


@pytest.mark.parametrize(
    ("top", "below", "problem"),
    [
        ({"guarantee": "cpu=4"}, [{"guarantee": "cpu=2"}, {"guarantee": "cpu=2"}], ""),
        ({"guarantee": "cpu=3"}, [{"guarantee": "cpu=2"}, {"guarantee": "cpu=2"}], "guarantees 4000 cpu to the queues"),
        ({}, [{"guarantee": "cpu=1"}], "but has 0 itself"),
        ({"deserved": "cpu=4"}, [{"deserved": "cpu=3"}, {"deserved": "cpu=2"}], "has 5000 cpu deserved by the queues"),
        ({"deserved": "cpu=4"}, [{"deserved": "mem=3Gi"}, {}], ""),
        ({}, [{"deserved": "cpu=3"}], ""),
    ],
)
def test_the_shares_of_queues_below_one_add_up_to_at_most_its_own(
    top: dict[str, str], below: list[dict[str, str]], problem: str
) -> None:
    def queue(name: str, parent: str, shares: dict[str, str]) -> Queue:
        guarantee = parse_slots(shares.get("guarantee", ""))
        deserved = SlotLimits(parse_slots(shares["deserved"])) if "deserved" in shares else NO_LIMITS
        return Queue(QueueName(name), parent=QueueName(parent), guarantee=guarantee, deserved=deserved)

    tree = QueueTree([queue("top", "root", top), *(queue(f"q{n}", "top", one) for n, one in enumerate(below))])
    for name in ("top", "q0"):
        if problem:
            with pytest.raises(InvalidQueues, match=problem):
                tree.require_shares_of(name)
        else:
            tree.require_shares_of(name)
