"""QueueUsage: limits, usage and order of queues."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sokovan.domain.cluster.queue import Queue, QueueState
from sokovan.scheduling.engine.usage.queue_usage import CAPACITY, PROPORTION, QueueNode, QueueUsage, shares_of
from sokovan.scheduling.engine.workspace import ONE
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.builders import queue

CPU, GPU = 0, 1


def queue_usage(
    *queues: Queue,
    policy: str = PROPORTION,
    tree: bool = False,
    total: tuple[int, int] = (8000, 8),
    requests: dict[str, int] | None = None,
) -> QueueUsage:
    """Queues over a cluster of cpu and cuda.device; `requests` is the cpu request of each."""
    made = QueueUsage(queues, policy=policy, hierarchy=tree, total=list(total), slots=("cpu", "cuda.device"))
    for name, amount in (requests or {}).items():
        made.add_request(name, [(CPU, amount * 1000)])
    made.settle()
    return made


def deserved(made: QueueUsage, name: str) -> int:
    return made.node(name).deserved[CPU]


def limit(made: QueueUsage, name: str) -> int:
    return made.node(name).limit[CPU]


def served(made: QueueUsage, names: Iterable[str], amount: int, times: int) -> list[str]:
    """The queues in the order in which they are served, each charged its cost."""
    walk = made.walk([made.node(name) for name in names])
    node: QueueNode | None = next(walk, None)
    order: list[str] = []
    while node is not None and len(order) < times:
        order.append(node.name)
        made.charge(node, [(CPU, amount * 1000)])
        node = walk.send(True)
    return order


# Proportion


def test_the_cluster_is_divided_by_weight_among_those_that_ask() -> None:
    made = queue_usage(queue("a", weight=3), queue("b"), queue("idle", weight=4), requests={"a": 8, "b": 8})
    assert (deserved(made, "a"), deserved(made, "b"), deserved(made, "idle")) == (6000, 2000, 0)


def test_a_queue_that_is_not_listed_has_weight_one_and_no_limits() -> None:
    made = queue_usage(queue("a", weight=3), requests={"a": 8, "new": 8})
    assert deserved(made, "new") == 2000
    assert limit(made, "new") == 8000


def test_a_queue_deserves_no_more_than_its_capability_and_the_rest_goes_to_others() -> None:
    made = queue_usage(queue("a", capability="cpu=1"), queue("b"), requests={"a": 8, "b": 8})
    assert (deserved(made, "a"), deserved(made, "b")) == (1000, 7000)


def test_a_queue_is_overused_once_it_has_all_that_it_deserves_in_every_slot() -> None:
    made = queue_usage(queue("a"), queue("b"), requests={"a": 8, "b": 8})
    node = made.node("a")
    made.charge(node, [(CPU, 3999)])
    assert not made.overused(node)
    made.charge(node, [(CPU, 1)])
    assert made.overused(node)


def test_by_proportion_a_kernel_beyond_the_deserved_share_is_refused_with_the_numbers() -> None:
    made = queue_usage(queue("a"), queue("b"), requests={"a": 8, "b": 8})
    made.charge(made.node("a"), [(CPU, 3000)])
    assert made.refusal(made.node("a"), [(CPU, 1000)]) is None
    refusal = made.refusal(made.node("a"), [(CPU, 1000)], 2)
    assert refusal is not None
    assert refusal.code is Code.QUEUE_OVER_SHARE
    assert refusal.sentence() == "queue a uses 3 cpu and deserves 4; 2 more would exceed it"


def test_what_a_statement_holds_counts_as_requested_not_as_used() -> None:
    made = queue_usage(queue("a"), queue("b"), requests={"a": 8, "b": 8})
    made.charge(made.node("a"), [(CPU, 1000)])
    held = [2000 if column == CPU else 0 for column in range(len(made.node("a").allocated))]
    refusal = made.refusal(made.node("a"), [(CPU, 1000)], 2, extra=held)
    assert refusal is not None
    assert refusal.request == 4000
    assert refusal.sentence() == "queue a uses 1 cpu and deserves 4; 4 more would exceed it"


def test_only_the_slots_that_are_requested_can_be_refused() -> None:
    made = queue_usage(queue("a"), requests={"a": 8})
    assert made.refusal(made.node("a"), [(GPU, 1)]) is not None
    assert made.refusal(made.node("a"), []) is None


def test_where_room_would_stand_idle_a_queue_may_pass_its_share_by_one_session_within_its_limit() -> None:
    made = queue_usage(queue("a", capability="cpu=6"), queue("b"), requests={"a": 8, "b": 8})
    node = made.node("a")
    made.charge(node, [(CPU, 3000)])
    assert made.room_for(node, [(CPU, 2000)], 2) == 0
    made.lending = True
    assert made.room_for(node, [(CPU, 2000)], 2) == 1
    assert made.refusal(node, [(CPU, 3000)]) is None
    assert made.refusal(node, [(CPU, 4000)]) is not None
    made.charge(node, [(CPU, 2000)])
    assert made.refusal(node, [(CPU, 1000)]) is not None


# Capacity


def test_a_queue_may_borrow_beyond_what_it_deserves_up_to_its_capability() -> None:
    made = queue_usage(queue("a", deserved="cpu=2", capability="cpu=4"), policy=CAPACITY)
    node = made.node("a")
    made.charge(node, [(CPU, 3000)])
    assert not made.overused(node)
    assert made.room_for(node, [(CPU, 500)], 9) == 2
    refusal = made.refusal(node, [(CPU, 500)], 3)
    assert refusal is not None
    assert refusal.sentence() == "queue a uses 3 cpu and may use 4; 1.5 more would exceed it"


def test_what_siblings_are_guaranteed_is_kept_free_for_them() -> None:
    made = queue_usage(queue("a", guarantee="cpu=3"), queue("b", guarantee="cpu=1"), queue("c"), policy=CAPACITY)
    assert [limit(made, name) for name in "abc"] == [7000, 5000, 4000]


def test_a_limit_never_falls_below_zero() -> None:
    made = queue_usage(queue("a", guarantee="cpu=9"), queue("b"), policy=CAPACITY)
    assert limit(made, "b") == 0


def test_room_counts_what_a_statement_holds() -> None:
    made = queue_usage(queue("a", capability="cpu=4"), policy=CAPACITY)
    assert made.room_for(made.node("a"), [(CPU, 1000)], 9, extra=[1000, 0]) == 3
    assert made.refusal(made.node("a"), [(CPU, 1000)], 4, extra=[1000, 0]) is not None


def test_what_runs_already_is_used() -> None:
    made = QueueUsage(
        [queue("a", capability="cpu=4")], policy=CAPACITY, hierarchy=False, total=[8000, 8], slots=("cpu", "gpu")
    )
    made.add_running("a", [(CPU, 1000)], 3)
    made.settle()
    assert made.room_for(made.node("a"), [(CPU, 1000)], 9) == 1


# The tree


def test_an_unset_limit_is_that_of_the_parent() -> None:
    made = queue_usage(
        queue("unit", capability="cpu=5"),
        queue("team", parent="unit"),
        queue("small", parent="unit", capability="cpu=2"),
        policy=CAPACITY,
        tree=True,
    )
    assert (limit(made, "unit"), limit(made, "team"), limit(made, "small")) == (5000, 5000, 2000)


def test_the_limit_of_every_queue_above_holds() -> None:
    made = queue_usage(
        queue("unit", capability="cpu=5"), queue("x", parent="unit"), queue("y", parent="unit"),
        policy=CAPACITY, tree=True,
    )  # fmt: skip
    made.charge(made.node("x"), [(CPU, 4000)])
    refusal = made.refusal(made.node("y"), [(CPU, 2000)])
    assert refusal is not None
    assert (refusal.queue, refusal.used, refusal.limit) == ("unit", 4000, 5000)
    assert made.room_for(made.node("y"), [(CPU, 1000)], 3) == 1


def test_weights_divide_level_by_level() -> None:
    made = queue_usage(
        queue("a", weight=3), queue("b"), queue("a1", parent="a"), queue("a2", parent="a", weight=2),
        tree=True, requests={"a1": 8, "a2": 8, "b": 8},
    )  # fmt: skip
    assert [deserved(made, name) for name in ("a", "b", "a1", "a2")] == [6000, 2000, 2000, 4000]


def test_only_leaves_run_sessions() -> None:
    made = queue_usage(queue("unit"), queue("team", parent="unit"), tree=True)
    text = "queue unit has 1 queues below it; only leaf queues run sessions"
    assert made.unfit(made.node("unit")) == (Code.QUEUE_NOT_LEAF, text)
    assert made.unfit(made.node("team")) is None


def test_without_a_hierarchy_every_queue_runs_sessions() -> None:
    made = queue_usage(queue("unit"), queue("team", parent="unit"))
    assert made.unfit(made.node("unit")) is None
    assert made.node("team").limiting_queues == (made.node("team"),)


def test_a_closed_queue_closes_everything_below_it_and_nothing_beside_it() -> None:
    made = queue_usage(queue("unit", state=QueueState.CLOSED), queue("team", parent="unit"), queue("other"), tree=True)
    assert made.unfit(made.node("team")) == (Code.QUEUE_CLOSED, "queue unit is closed")
    assert made.unfit(made.node("other")) is None


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ((queue("x", parent="gone"),), "queue x has a parent gone that does not exist"),
        ((queue("x", parent="y"), queue("y", parent="x")), "queue x is its own ancestor: x in y in x"),
        ((queue("x", parent="y"), queue("y", parent="gone")), "queue y has a parent gone that does not exist"),
    ],
    ids=["unknown parent", "cycle", "unknown grandparent"],
)
def test_a_queue_with_an_invalid_parent_runs_nothing_and_stops_no_other(bad: tuple[Queue, ...], text: str) -> None:
    made = queue_usage(queue("good"), *bad, tree=True, requests={"good": 8, "x": 8})
    assert made.unfit(made.node("x")) == (Code.QUEUE_INVALID, text)
    assert made.unfit(made.node("good")) is None
    assert deserved(made, "good") == 8000


def test_a_queue_below_a_cycle_is_not_said_to_be_under_itself() -> None:
    made = queue_usage(queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="a"), tree=True)
    unfit = made.unfit(made.node("c"))
    assert unfit is not None
    assert not unfit[1].startswith("queue c is its own ancestor")


def test_a_root_that_is_listed_limits_all_queues() -> None:
    made = queue_usage(queue("root", capability="cpu=2"), queue("a"), policy=CAPACITY, tree=True)
    assert limit(made, "a") == 2000


def test_the_root_is_no_leaf_and_runs_no_sessions() -> None:
    made = queue_usage(queue("a"), tree=True)
    unfit = made.unfit(made.node("root"))
    assert unfit is not None
    assert unfit[0] is Code.QUEUE_NOT_LEAF


# Order


def test_the_share_is_the_largest_used_part_of_what_is_deserved() -> None:
    made = queue_usage(queue("a"), queue("b"), requests={"a": 8, "b": 8})
    made.charge(made.node("a"), [(CPU, 1000)])
    assert made.node("a").share == ONE // 4
    made.charge(made.node("a"), [(GPU, 1)])
    assert made.node("a").share == ONE


def test_the_queue_with_the_smallest_share_goes_next_and_is_reordered_after_every_charge() -> None:
    made = queue_usage(queue("a"), queue("b", weight=3), requests={"a": 8, "b": 8})
    assert served(made, "ab", amount=1, times=8) == ["a", "b", "b", "b", "a", "b", "b", "b"]


def test_of_equal_shares_the_higher_priority_goes_first_and_then_the_name() -> None:
    made = queue_usage(queue("a"), queue("b", priority=5), queue("c"), requests={"a": 8, "b": 8, "c": 8})
    assert served(made, "cab", amount=1, times=4) == ["b", "a", "c", "b"]


def test_a_queue_that_borrows_only_goes_after_all_that_deserve_something() -> None:
    made = queue_usage(queue("borrower", priority=9), queue("owner", deserved="cpu=1"), policy=CAPACITY)
    assert served(made, ["borrower", "owner"], amount=1, times=3) == ["owner", "owner", "owner"]


def test_a_queue_that_is_dropped_does_not_come_back_and_the_walk_ends_with_the_last() -> None:
    made = queue_usage(queue("a"), queue("b"), requests={"a": 8, "b": 8})
    walk = made.walk([made.node("a"), made.node("b")])
    assert next(walk).name == "a"
    assert walk.send(False).name == "b"
    assert walk.send(True).name == "b"
    with pytest.raises(StopIteration):
        walk.send(False)


def test_in_a_tree_the_best_branch_is_walked_down_and_its_share_moves_with_its_leaves() -> None:
    made = queue_usage(
        queue("x"), queue("y"), queue("x1", parent="x"), queue("x2", parent="x"), queue("y1", parent="y"),
        tree=True, requests={"x1": 8, "x2": 8, "y1": 8},
    )  # fmt: skip
    assert served(made, ["x1", "x2", "y1"], amount=1, times=6) == ["x1", "y1", "x2", "y1", "x1", "y1"]


def test_a_branch_goes_on_while_one_of_its_leaves_does() -> None:
    made = queue_usage(
        queue("x"), queue("x1", parent="x"), queue("x2", parent="x"), tree=True, requests={"x1": 8, "x2": 8}
    )
    walk = made.walk([made.node("x1"), made.node("x2")])
    assert next(walk).name == "x1"
    assert walk.send(False).name == "x2"
    with pytest.raises(StopIteration):
        walk.send(False)


def test_an_order_by_plugin_comes_before_the_share() -> None:
    made = queue_usage(queue("a"), queue("b"), requests={"a": 8, "b": 8})
    made.order_key = lambda node: (0 if node.name == "b" else 1,)
    assert served(made, "ab", amount=1, times=3) == ["b", "b", "b"]


def test_plugins_see_a_queue_by_slot_names() -> None:
    made = queue_usage(queue("a", weight=3, priority=2), requests={"a": 4})
    made.charge(made.node("a"), [(CPU, 1000)])
    view = made.view(made.node("a"))
    assert (view.name, view.share, view.priority, view.weight) == ("a", ONE // 4, 2, 3)
    assert (view.allocated["cpu"], view.deserved["cpu"]) == (1000, 4000)


def test_the_shares_of_queues_say_what_is_in_use_deserved_and_borrowed() -> None:
    queues = (queue("a", deserved="cpu=3"), queue("idle"))
    made = queue_usage(*queues, policy=CAPACITY, requests={"a": 6})
    made.charge(made.node("a"), [(CPU, 5000)])
    (share,) = shares_of(made)
    assert (share.queue, share.slot, share.allocated, share.requested) == ("a", "cpu", 5000, 6000)
    assert (share.deserved, share.borrowed, share.limit) == (3000, 2000, 8000)
