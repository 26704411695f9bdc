"""EvictionRules: who may take from whom, and what a set costs."""

from __future__ import annotations

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.engine.evictions.rules import EvictionRules, Protected, demand_of
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import kernel, session, slot_limits


def queue(name: str, deserved: str, **more: object) -> Queue:
    return Queue(name=QueueName(name), deserved=slot_limits(deserved), **more)  # type: ignore[arg-type]  # any keyword of a queue


def test_preempt_takes_lower_kernels_of_the_same_queue_only() -> None:
    made = TakerParts(
        cluster(
            runs("low", "a", priority=1),
            runs("kernel-high", "b", priorities=[5], priority=1),
            runs("equal", "c", priority=5),
            runs("elsewhere", "d", queue="other"),
            runs("kept", "e", preemptible=False),
            session("taker", priority=5),
        )
    )
    assert made.names(made.rules.candidates.tolist()) == ["low.0"]
    assert made.rules.protected == Protected(priority=2, not_preemptible=1)
    assert made.rules.protected.sentence() == "2 not of lower priority, 1 not preemptible"


def test_reclaim_takes_from_queues_above_their_share_within_the_own_share() -> None:
    seen = cluster(
        runs("over", "a", queue="over"),
        runs("more", "b", queue="over"),
        runs("under", "c", queue="under"),
        session("taker", queue="mine"),
        queues=(queue("over", "cpu=1"), queue("under", "cpu=1"), queue("mine", "cpu=1")),
    )
    made = TakerParts(seen, "reclaim")
    assert made.rules.may_take()
    assert made.names(made.rules.candidates.tolist()) == ["more.0", "over.0"]
    assert made.rules.protected == Protected(within_share=1)
    assert made.rules.leaves_shares(made.rows("over.0"))
    # The second unit would be taken from a queue that has no more than it deserves.
    assert not made.rules.leaves_shares(made.rows("over.0", "more.0"))


def test_reclaim_leaves_a_queue_its_guarantee() -> None:
    seen = cluster(
        runs("big", "a", slots="cpu=3", queue="over"),
        session("taker", "cpu=1", queue="mine"),
        cpu=3,
        queues=(queue("over", "cpu=2", guarantee=parse_slots("cpu=1")), queue("mine", "cpu=1")),
    )
    made = TakerParts(seen, "reclaim")
    assert not made.rules.leaves_shares(made.rows("big.0"))
    assert made.rules.met_guarantee


def test_a_taker_whose_queue_would_exceed_its_share_takes_nothing() -> None:
    seen = cluster(session("taker", "cpu=2", queue="q"), cpu=2, agents=["a"], queues=(queue("q", "cpu=1"),))
    assert not TakerParts(seen, "reclaim").rules.may_take()


def test_the_cost_of_a_set_counts_ended_gangs_first_then_priorities() -> None:
    wide = runs("wide", "a", "b", priority=2, priorities=[1, 3], min_kernels=1)
    made = TakerParts(cluster(wide, runs("one", "c"), session("taker", priority=9)))
    surplus, whole = made.rules.key(made.rows("wide.1")), made.rules.key(made.rows("one.0"))
    assert surplus < whole
    assert (surplus.gangs_ended, surplus.session_priority, surplus.kernel_priorities) == (0, 2, (3,))
    assert made.rules.key(made.rows("wide.0", "wide.1")).gangs_ended == 1


def test_the_demand_of_a_taker_is_its_minimum() -> None:
    taker = session("taker", "cpu=1", "cpu=1", kernel("big", "cpu=2"), min_kernels=2)
    made = TakerParts(cluster(taker, cpu=4, agents=["a"]))
    assert [(shape.slots["cpu"], count) for shape, count in demand_of(made.pending)] == [(2000, 1), (1000, 1)]


def test_what_a_queue_lacks_is_counted_with_the_taker_in_it() -> None:
    limited = Queue(name=QueueName("default"), capability=slot_limits("cpu=2"))
    made = TakerParts(cluster(runs("low", "a", slots="cpu=2"), session("taker", priority=9), cpu=4, queues=(limited,)))
    assert made.rules.queue_shortage() == {"default": [1000]}


def test_a_queue_that_gave_lately_may_take_only_within_its_share_of_every_slot() -> None:
    made = TakerParts(
        cluster(session("taker", "cpu=1 mem=1", queue="mine"), queues=(queue("mine", "cpu=1"),)), "reclaim"
    )
    gave = EvictionRules("reclaim", made.pending, made.table, levels=0, cooling=True)
    assert (made.rules.may_take(), made.rules.cools_down) == (True, False)
    assert (gave.may_take(), gave.cools_down) == (False, True)
    text = Protected(cool_down=2).sentence()
    assert text.startswith("2 only for queues that gave nothing lately")
