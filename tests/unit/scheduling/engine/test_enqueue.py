"""The action enqueue: who may be considered, as far as the limits of queues go."""

from __future__ import annotations

from sokovan.scheduling.engine.enqueue import Enqueue
from sokovan.scheduling.engine.pending_session import Failure, PendingSession
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.builders import (
    Bench,
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


def looked_at(bench: Bench, *sessions: SessionWorkload) -> list[PendingSession]:
    jobs = [bench.job(work) for work in sessions]
    for rank, job in enumerate(jobs):
        job.rank = rank
    Enqueue(bench.book, bench.workspace.slots).run(jobs)
    return jobs


def let_in(jobs: list[PendingSession]) -> list[str]:
    return [job.session.session_id for job in jobs if job.failure is None]


def four_cpu() -> Bench:
    return Bench(*agents(2, "cpu=8"), queues=(queue("default", capability="cpu=4"),))


def test_sessions_are_let_in_until_their_minimums_fill_the_capability_of_the_queue() -> None:
    jobs = looked_at(four_cpu(), gang("first", 3, "cpu=1"), gang("second", 2, "cpu=1"), gang("third", 1, "cpu=1"))
    assert let_in(jobs) == ["first", "third"]
    text = "not let in: queue default uses 3 cpu and may use 4; 2 more would pass it"
    assert jobs[1].failure == Failure(Code.QUEUE_LIMIT, text)


def test_only_the_minimum_of_an_elastic_session_counts() -> None:
    jobs = looked_at(four_cpu(), gang("elastic", 9, "cpu=1", min_kernels=2), gang("next", 2, "cpu=1"))
    assert let_in(jobs) == ["elastic", "next"]


def test_priority_comes_before_the_order() -> None:
    jobs = looked_at(four_cpu(), gang("first", 3, "cpu=1"), gang("urgent", 3, "cpu=1", priority=1))
    assert let_in(jobs) == ["urgent"]


def test_what_the_queue_uses_already_counts() -> None:
    bench = four_cpu()
    bench.book.charge(bench.book.node("default"), bench.shape("cpu=3").slot_pairs)
    assert let_in(looked_at(bench, gang("two", 2, "cpu=1"), gang("one", 1, "cpu=1"))) == ["one"]


def test_a_session_that_has_begun_is_in_already_and_one_that_failed_stays_out() -> None:
    bench = four_cpu()
    begun = session("begun", kernel("r", "cpu=1", at="a0"), *gang("k", 8, "cpu=1").kernels)
    jobs = [bench.job(begun), bench.job(gang("failed", 1, "cpu=1"))]
    jobs[1].failure = Failure(Code.QUEUE_CLOSED, "closed")
    Enqueue(bench.book, bench.workspace.slots).run(jobs)
    assert jobs[0].failure is None
    assert jobs[1].failure == Failure(Code.QUEUE_CLOSED, "closed")


def test_every_queue_above_counts_what_was_let_in_below_it() -> None:
    queues = (queue("unit", capability="cpu=4"), queue("x", parent="unit"), queue("y", parent="unit"))
    given = snapshot(
        agents(2, "cpu=8"), gang("s", 3, "cpu=1", queue="x"), gang("t", 2, "cpu=1", queue="y"), queues=queues
    )
    plan = planned(given, hierarchy=True, actions=("enqueue", "allocate"))
    assert placed(plan) == {"s": 3}
    assert code(plan, "t") == "QUEUE_LIMIT"
    assert plan.verdicts[1].summary.startswith("not let in: queue unit uses 3 cpu and may use 4")


def test_a_slot_that_is_not_asked_for_keeps_nobody_out() -> None:
    bench = Bench(*agents(2, "cpu=8 mem=8Gi"), queues=(queue("default", capability="cpu=1"),))
    bench.book.charge(bench.book.node("default"), bench.shape("cpu=2").slot_pairs)
    assert let_in(looked_at(bench, gang("s", 1, "mem=1Gi"))) == ["s"]


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
