"""PendingSession: batches of waiting kernels, and when the session is ready."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import AgentId
from sokovan.domain.session import Partition
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.engine.pending_session import NO_AGENT, NO_GROUP, BatchingContext, PendingSession, UnmetMinimums
from sokovan.scheduling.snapshot import SessionWorkload
from tests.unit.scheduling.engine.builders import EngineParts, agent, gang, hard, kernel, session


def engine() -> EngineParts:
    return EngineParts(agent("a1", "cpu=8 mem=8Gi"), agent("a2", "cpu=8 mem=8Gi"))


def pending(work: SessionWorkload) -> PendingSession:
    return engine().pending(work)


def order(work: PendingSession) -> list[list[str]]:
    """The kernels in placement order, by batch."""
    return [[k.kernel_id for k in batch.kernels] for batch in work.batches]


def test_a_session_of_one_kernel_without_constraints_takes_the_fast_path() -> None:
    assert pending(gang("s", 1, "cpu=1")).single


@pytest.mark.parametrize(
    "work",
    [
        gang("s", 2, "cpu=1"),
        gang("s", 1, "cpu=1", topology=hard(1)),
        gang("s", 1, "cpu=1", group_minimums={"": 1}),
        gang("s", 1, "cpu=1", partitions=(Partition("p", "p"),)),
        gang("s", 1, ""),
        session("s", kernel("k", "cpu=1", nominated=AgentId("a1"))),
        session("s", kernel("k", "cpu=1", at="a1")),
    ],
    ids=["gang", "topology", "group minimum", "partition", "best effort", "nominated", "running"],
)
def test_any_constraint_leads_to_the_general_path(work: SessionWorkload) -> None:
    assert not pending(work).single


def test_equal_neighbours_form_one_batch() -> None:
    assert order(pending(gang("s", 3, "cpu=1"))) == [["s-0", "s-1", "s-2"]]


def test_kernels_go_by_priority_then_larger_first_then_as_listed() -> None:
    work = session(
        "s",
        kernel("small", "cpu=1"),
        kernel("large", "cpu=4"),
        kernel("small-too", "cpu=1"),
        kernel("urgent", "cpu=1", priority=5),
        kernel("large-by-memory", "mem=6Gi"),
    )
    assert order(pending(work)) == [["urgent"], ["large-by-memory"], ["large"], ["small", "small-too"]]


def test_kernels_of_different_groups_or_nominations_are_in_different_batches() -> None:
    by_pod = Partition("p", "pod")
    work = session(
        "s",
        kernel("k0", "cpu=1", group="a"),
        kernel("k1", "cpu=1", group="b"),
        kernel("k2", "cpu=1", group="b", labels={"pod": "x"}),
        kernel("k3", "cpu=1", group="b", labels={"pod": "y"}),
        kernel("k4", "cpu=1", group="b", labels={"pod": "y"}, nominated=AgentId("a1")),
        kernel("k5", "cpu=1", group="b", labels={"pod": "y"}, nominated=AgentId("a1")),
        partitions=(by_pod,),
    )
    assert order(pending(work)) == [["k0"], ["k1"], ["k2"], ["k3"], ["k4"], ["k5"]]


def test_every_kernel_is_a_batch_if_a_plugin_may_treat_them_differently() -> None:
    here = engine()
    work = PendingSession(
        gang("s", 2, "cpu=1"), here.queue_usage.node("default"), BatchingContext(here.table, batch_equal=False)
    )
    assert order(work) == [["s-0"], ["s-1"]]


def test_an_order_by_plugin_comes_before_priority_and_size() -> None:
    here = engine()
    outlook = BatchingContext(here.table, kernel_key=lambda kernel: (kernel.kernel_id != "last-listed",))
    work = session("s", kernel("urgent", "cpu=4", priority=9), kernel("last-listed", "cpu=1"))
    assert order(PendingSession(work, here.queue_usage.node("default"), outlook)) == [["last-listed"], ["urgent"]]


def test_a_kernel_is_nominated_by_itself_or_by_an_earlier_cycle() -> None:
    here = engine()
    by_itself = kernel("k0", "cpu=1", nominated=AgentId("a2"))
    by_cycle, by_nobody = kernel("k1", "cpu=1"), kernel("k2", "cpu=1")
    outlook = BatchingContext(here.table, {"k0": "a1", "k1": "a1", "k2": "gone"})
    assert [outlook.nominated(k) for k in (by_itself, by_cycle, by_nobody)] == [
        here.row("a2"),
        here.row("a1"),
        NO_AGENT,
    ]


def test_an_attempt_needs_the_minimum_first_and_one_kernel_at_a_time_from_then_on() -> None:
    work = pending(gang("s", 5, "cpu=1", min_kernels=3))
    assert work.need() == 3
    work.have = 2
    assert work.need() == 1
    work.have = 4
    assert work.need() == 1


def test_the_next_slots_are_those_of_the_kernels_that_must_be_placed_next() -> None:
    kernels = (kernel("k0", "cpu=2"), kernel("k1", "cpu=1"), kernel("k2", "cpu=1"))
    assert pending(session("s", *kernels, min_kernels=2)).next_slots() == parse_slots("cpu=3")
    assert pending(session("s", *kernels)).next_slots() == parse_slots("cpu=4")
    assert pending(gang("s", 3, "cpu=1", min_kernels=2)).next_slots() == parse_slots("cpu=2")
    assert pending(gang("s", 1, "cpu=1")).next_slots() == parse_slots("cpu=1")


def test_running_and_best_effort_kernels_count_and_those_on_their_way_out_do_not() -> None:
    work = pending(
        session(
            "s",
            kernel("runs", "cpu=1", at="a2"),
            kernel("leaves", "cpu=1", at="a1", releasing=True),
            kernel("asks-nothing"),
            kernel("waits", "cpu=1"),
        )
    )
    assert (work.have, len(work.best_effort), work.waiting) == (2, 1, 1)
    assert work.agents == [engine().row("a2")]
    assert not work.starts
    assert work.minimum == 4


def test_a_session_that_has_nothing_running_would_start_by_its_next_attempt() -> None:
    assert pending(gang("s", 2, "cpu=1")).starts


def test_a_kernel_on_an_agent_that_is_not_listed_counts_as_running_somewhere() -> None:
    work = pending(session("s", kernel("runs", "cpu=1", at="elsewhere"), kernel("waits", "cpu=1")))
    assert (work.have, work.agents) == (1, [NO_AGENT])


def test_a_session_is_ready_with_its_minimum() -> None:
    work = pending(gang("s", 4, "cpu=1", min_kernels=3))
    assert not work.ready(2, {}, {})
    assert work.ready(3, {}, {})


def test_every_group_minimum_must_be_met_as_well() -> None:
    work = pending(
        session(
            "s",
            kernel("m0", "cpu=1", group="master"),
            kernel("w0", "cpu=1", group="worker", at="a1"),
            kernel("w1", "cpu=1", group="worker"),
            min_kernels=1,
            group_minimums={"master": 1, "worker": 2},
        )
    )
    assert not work.ready(0, {}, {})
    assert not work.ready(1, {"master": 1}, {})
    assert not work.ready(1, {"worker": 1}, {})
    assert work.ready(2, {"master": 1, "worker": 1}, {})


def test_a_best_effort_kernel_counts_for_its_group() -> None:
    work = pending(session("s", kernel("m0", group="master"), kernel("w0", "cpu=1"), group_minimums={"master": 1}))
    assert work.ready(1, {"": 1}, {})


def pods() -> SessionWorkload:
    kernels = [kernel(f"{pod}{index}", "cpu=1", labels={"pod": pod}) for pod in "xyz" for index in range(2)]
    return session("s", *kernels, min_kernels=1, partitions=(Partition("p", "pod", size=2, min_groups=2),))


def test_a_partition_needs_so_many_whole_kernel_groups() -> None:
    work = pending(pods())
    assert [(part.value, part.size, part.have) for part in work.kernel_groups] == [
        ("x", 2, 0),
        ("y", 2, 0),
        ("z", 2, 0),
    ]
    assert not work.ready(3, {}, {0: 1, 1: 1, 2: 1})
    assert not work.ready(3, {}, {0: 2, 1: 1})
    assert work.ready(4, {}, {0: 2, 2: 2})


def test_kernels_that_run_already_count_for_their_kernel_group() -> None:
    work = pending(
        session(
            "s",
            kernel("x0", "cpu=1", labels={"pod": "x"}, at="a2"),
            kernel("x1", "cpu=1", labels={"pod": "x"}),
            partitions=(Partition("p", "pod", size=2, min_groups=1),),
        )
    )
    assert [(part.have, part.agents) for part in work.kernel_groups] == [(1, [engine().row("a2")])]
    assert work.ready(1, {}, {0: 1})


def test_a_kernel_belongs_to_the_first_partition_whose_label_it_carries() -> None:
    work = pending(
        session(
            "s",
            kernel("k0", "cpu=1", labels={"row": "1", "pod": "x"}),
            kernel("k1", "cpu=1", labels={"pod": "x"}),
            kernel("k2", "cpu=1"),
            partitions=(Partition("rows", "row"), Partition("pods", "pod")),
        )
    )
    assert [(part.partition, part.value) for part in work.kernel_groups] == [(0, "1"), (1, "x")]
    assert [batch.kernel_group for batch in work.batches] == [0, 1, NO_GROUP]


# Group minimums of a session with kernel groups


def unmet(work: PendingSession) -> UnmetMinimums:
    return UnmetMinimums(work, work.batches, [])


def two_pods() -> PendingSession:
    names = ("xw0", "xw1", "xh", "yw0")
    kernels = [
        kernel(name, "cpu=1", group={"w": "worker", "h": "head"}[name[1]], labels={"pod": name[0]}) for name in names
    ]
    return pending(
        session(
            "s",
            *kernels,
            min_kernels=1,
            group_minimums={"worker": 2, "head": 1},
            partitions=(Partition("p", "pod", size=1, min_groups=1),),
        )
    )


def test_a_kernel_group_gives_what_minimums_lack_and_what_no_other_has() -> None:
    minimums = unmet(two_pods())
    assert [minimums.given_by(index) for index in (0, 1)] == [3, 1]
    assert [dict(minimums.only_from(index)) for index in (0, 1)] == [{"worker": 1, "head": 1}, {}]


def test_kernels_of_unmet_minimums_come_before_the_surplus() -> None:
    work = two_pods()
    alone, rest = unmet(work).split(0, [batch for batch in work.batches if batch.kernel_group == 0])
    assert [k.kernel_id for batch in alone for k in batch.kernels] == ["xw0", "xh"]
    assert [k.kernel_id for batch in rest for k in batch.kernels] == ["xw1"]


def test_tentative_kernels_count_for_minimums() -> None:
    work = two_pods()
    minimums = UnmetMinimums(work, work.batches, [(batch, k, 0) for batch in work.batches for k in batch.kernels[:1]])
    assert not any(minimums.given_by(index) for index in (0, 1))
