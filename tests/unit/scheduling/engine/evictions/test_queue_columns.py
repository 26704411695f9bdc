"""Columns of queues: made once in a cycle, true after evictions."""

from __future__ import annotations

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName
from sokovan.domain.lifecycle.eviction import PREEMPT, RECLAIM
from sokovan.scheduling.engine.evictions.queue_columns import QueueColumns, ShareColumns, distance, relevant
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session, slot_limits


def queue(name: str, deserved: str, **more: object) -> Queue:
    return Queue(name=QueueName(name), deserved=slot_limits(deserved), **more)  # type: ignore[arg-type]  # any keyword of a queue


def made(*queues: Queue, **policy: object) -> TakerParts:
    running = [runs("first", "a", queue="over"), runs("second", "b", queue="over"), runs("third", "c", queue="under")]
    seen = cluster(*running, session("taker", queue="mine"), queues=queues)
    return TakerParts(seen, RECLAIM, **policy)


def test_columns_of_a_queue_are_made_once_for_each_action() -> None:
    parts = made(queue("over", "cpu=1"), queue("under", "cpu=1"), queue("mine", "cpu=1"))
    node = parts.pending.node
    first = QueueColumns.of(RECLAIM, node, parts.table)
    assert QueueColumns.of(RECLAIM, node, parts.table) is first
    assert first.others.tolist() == [True, True, True]
    assert QueueColumns.of(PREEMPT, node, parts.table).others.tolist() == [False, False, False]


def test_rows_are_above_the_share_by_what_the_queue_uses_now() -> None:
    parts = made(queue("over", "cpu=1"), queue("under", "cpu=1"), queue("mine", "cpu=1"))
    shares = ShareColumns.of(parts.table)
    assert shares.above(parts.rules.asked, shares.used()).tolist() == [True, True, False]
    usage = parts.engine.context.queue_usage
    usage.charge(usage.node("over"), parts.table.shapes[0].slot_pairs, -1)
    assert shares.above(parts.rules.asked, shares.used()).tolist() == [False, False, False]
    assert ShareColumns.of(parts.table) is shares


def test_only_columns_decide_that_the_taker_asks_for() -> None:
    parts = made(queue("over", "cpu=1"))
    node, shape = parts.table.queues[0], parts.table.shapes[0]
    assert relevant(node, shape, [1000]) == (0,)
    assert relevant(node, shape, [0]) == ()


def test_queues_as_far_from_all_that_give_share_an_order() -> None:
    parts = made(queue("over", "cpu=1"), queue("under", "cpu=1"), queue("mine", "cpu=1"), queue("other", "cpu=1"))
    usage, table = parts.engine.context.queue_usage, parts.table
    mine, other, over = (
        QueueColumns.of(RECLAIM, usage.node(name), table).order_key for name in ("mine", "other", "over")
    )
    assert mine == other != over
    assert distance(RECLAIM, usage.node("mine"), usage.node("over")) == 2
    assert distance(PREEMPT, usage.node("mine"), usage.node("over")) == 0
