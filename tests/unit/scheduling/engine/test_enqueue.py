"""The action enqueue: admits sessions within the capability of their queues."""

from __future__ import annotations

from sokovan.scheduling.engine.enqueue import Enqueue
from sokovan.scheduling.engine.pending_session import PendingReason, PendingSession
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.builders import (
    EngineParts,
    agents,
    code,
    gang,
    kernel,
    placed,
    planned,
    queue,
    session,
    snapshot,
)

ENQUEUE = ("enqueue", "allocate", "backfill")


def enqueued(engine: EngineParts, *sessions: SessionWorkload) -> list[PendingSession]:
    waiting = [engine.pending(work) for work in sessions]
    for rank, pending in enumerate(waiting):
        pending.rank = rank
    Enqueue(engine.workspace.slots).run(waiting)
    return waiting


def admitted(waiting: list[PendingSession]) -> list[str]:
    return [pending.session.session_id for pending in waiting if pending.reason is None]


def four_cpu() -> EngineParts:
    return EngineParts(*agents(2, "cpu=8"), queues=(queue("default", capability="cpu=4"),))


def test_sessions_are_let_in_until_their_minimums_fill_the_capability_of_the_queue() -> None:
    waiting = enqueued(four_cpu(), gang("first", 3, "cpu=1"), gang("second", 2, "cpu=1"), gang("third", 1, "cpu=1"))
    assert admitted(waiting) == ["first", "third"]
    text = "not enqueued: queue default uses 3 cpu and may use 4; 2 more would exceed it"
    assert waiting[1].reason == PendingReason(Code.QUEUE_LIMIT, text)


def test_only_the_minimum_of_an_elastic_session_counts() -> None:
    waiting = enqueued(four_cpu(), gang("elastic", 9, "cpu=1", min_kernels=2), gang("next", 2, "cpu=1"))
    assert admitted(waiting) == ["elastic", "next"]


def test_priority_comes_before_the_order() -> None:
    waiting = enqueued(four_cpu(), gang("first", 3, "cpu=1"), gang("urgent", 3, "cpu=1", priority=1))
    assert admitted(waiting) == ["urgent"]


def test_what_the_queue_uses_already_counts() -> None:
    engine = four_cpu()
    engine.queue_usage.charge(engine.queue_usage.node("default"), engine.shape("cpu=3").slot_pairs)
    assert admitted(enqueued(engine, gang("two", 2, "cpu=1"), gang("one", 1, "cpu=1"))) == ["one"]


def test_a_session_that_has_begun_is_in_already_and_one_that_failed_stays_out() -> None:
    engine = four_cpu()
    begun = session("begun", kernel("r", "cpu=1", at="a0"), *gang("k", 8, "cpu=1").kernels)
    waiting = [engine.pending(begun), engine.pending(gang("failed", 1, "cpu=1"))]
    waiting[1].reason = PendingReason(Code.QUEUE_CLOSED, "closed")
    Enqueue(engine.workspace.slots).run(waiting)
    assert waiting[0].reason is None
    assert waiting[1].reason == PendingReason(Code.QUEUE_CLOSED, "closed")


def test_every_queue_above_counts_what_was_let_in_below_it() -> None:
    queues = (queue("unit", capability="cpu=4"), queue("x", parent="unit"), queue("y", parent="unit"))
    given = snapshot(
        agents(2, "cpu=8"), gang("s", 3, "cpu=1", queue="x"), gang("t", 2, "cpu=1", queue="y"), queues=queues
    )
    plan = planned(given, hierarchy=True, actions=("enqueue", "allocate"))
    assert placed(plan) == {"s": 3}
    assert code(plan, "t") == "QUEUE_LIMIT"
    assert plan.verdicts[1].summary.startswith("not enqueued: queue unit uses 3 cpu and may use 4")


def test_a_slot_that_is_not_requested_excludes_no_session() -> None:
    engine = EngineParts(*agents(2, "cpu=8 mem=8Gi"), queues=(queue("default", capability="cpu=1"),))
    engine.queue_usage.charge(engine.queue_usage.node("default"), engine.shape("cpu=2").slot_pairs)
    assert admitted(enqueued(engine, gang("s", 1, "mem=1Gi"))) == ["s"]


def test_a_session_that_is_kept_out_is_not_allocated_however_much_room_there_is_later() -> None:
    given = snapshot(
        agents(1, "cpu=8"),
        gang("never", 1, "cpu=9"),
        gang("first", 4, "cpu=1"),
        gang("second", 1, "cpu=1"),
        queues=(queue("default", capability="cpu=4"),),
    )
    plan = planned(given, actions=ENQUEUE)
    assert placed(plan) == {"first": 4}
    assert code(plan, "never") == "NEVER_FITS"
    assert code(plan, "second") == "QUEUE_LIMIT"
