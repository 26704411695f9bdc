"""KernelPlacer: kernels are placed on a statement until the session is ready."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.scheduling.engine.gang import KernelPlacer
from sokovan.scheduling.engine.pending_session import PendingReason, PendingSession
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code
from tests.quick import at_most
from tests.unit.scheduling.engine.builders import EngineParts, agent, agents, gang, kernel, queue, session
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session as waiting_session


@dataclass
class Attempt:
    """A placer with its session and its statement."""

    engine: EngineParts
    pending: PendingSession
    statement: Statement
    placer: KernelPlacer

    def ready(self) -> bool:
        return self.pending.ready_with(self.statement.placed)


def attempt_of(engine: EngineParts, work: SessionWorkload) -> Attempt:
    pending, statement = engine.pending(work), engine.statement()
    return Attempt(engine, pending, statement, KernelPlacer(pending, engine.context, statement))


def filled(engine: EngineParts, work: SessionWorkload) -> Attempt:
    attempt = attempt_of(engine, work)
    attempt.placer.fill(attempt.pending.batches, engine.all_agents)
    return attempt


def seats(attempt: Attempt) -> dict[str, str]:
    return {k.kernel_id: attempt.engine.workspace.ids[row] for _, k, row in attempt.statement.placed}


def held(attempt: Attempt) -> dict[str, str]:
    return {k.kernel_id: attempt.engine.workspace.ids[row] for _, k, row in attempt.statement.reserved}


def test_a_gang_is_placed_whole_and_is_then_ready() -> None:
    attempt = filled(EngineParts(*agents(2, "cpu=2")), gang("s", 3, "cpu=1"))
    assert seats(attempt) == {"s-0": "a0", "s-1": "a0", "s-2": "a1"}
    assert attempt.ready()


def test_an_elastic_session_is_placed_up_to_its_minimum_in_one_go() -> None:
    attempt = filled(EngineParts(*agents(2, "cpu=4")), gang("s", 6, "cpu=1", min_kernels=2))
    assert list(seats(attempt)) == ["s-0", "s-1"]


def test_a_session_that_has_its_minimum_grows_by_one() -> None:
    running = kernel("runs", "cpu=1", at="a0")
    attempt = filled(
        EngineParts(*agents(1, "cpu=4")), session("s", running, *gang("s", 3, "cpu=1").kernels, min_kernels=1)
    )
    assert list(seats(attempt)) == ["s-0"]


def test_a_gang_that_cannot_be_whole_stops_at_the_first_kernel_that_does_not_fit() -> None:
    work = session("s", kernel("large", "cpu=4"), kernel("small", "cpu=1"))
    attempt = filled(EngineParts(agent("a", "cpu=4", used="cpu=2")), work)
    assert seats(attempt) == {}
    assert not attempt.ready()
    assert attempt.placer.misfit is attempt.pending.batches[0].shape


def test_a_kernel_that_fits_nowhere_is_skipped_while_the_rest_could_be_enough() -> None:
    work = session("s", kernel("large", "cpu=4"), kernel("small", "cpu=1"), kernel("small-too", "cpu=1"), min_kernels=2)
    attempt = filled(EngineParts(agent("a", "cpu=4", used="cpu=2")), work)
    assert list(seats(attempt)) == ["small", "small-too"]
    assert attempt.ready()


def test_going_on_is_useless_where_a_group_minimum_can_no_longer_be_met() -> None:
    work = session(
        "s",
        kernel("m", "cpu=4", group="master"),
        kernel("w", "cpu=1", group="worker"),
        min_kernels=1,
        group_minimums={"master": 1},
    )
    attempt = filled(EngineParts(agent("a", "cpu=4", used="cpu=2")), work)
    assert seats(attempt) == {}


def test_all_groups_are_served_before_the_session_is_ready() -> None:
    work = session(
        "s",
        kernel("m", "cpu=2", group="master"),
        *(kernel(f"w{index}", "cpu=1", group="worker") for index in range(2)),
        min_kernels=1,
        group_minimums={"master": 1, "worker": 1},
    )
    attempt = filled(EngineParts(*agents(1, "cpu=8")), work)
    assert list(seats(attempt)) == ["m", "w0"]


def test_only_the_agents_of_the_range_are_used() -> None:
    engine = EngineParts(*agents(3, "cpu=2"))
    attempt = attempt_of(engine, gang("s", 3, "cpu=1", min_kernels=1))
    assert attempt.placer.place(attempt.pending.batches[0], list(attempt.pending.batches[0].kernels), range(1, 2)) == 2
    assert set(seats(attempt).values()) == {"a1"}


def test_what_does_not_fit_now_waits_for_room_that_is_being_released() -> None:
    engine = EngineParts(agent("a", "cpu=2"), agent("b", "cpu=4", used="cpu=4", leaving="cpu=2"))
    attempt = filled(engine, gang("s", 4, "cpu=1"))
    assert list(seats(attempt).values()) == ["a", "a"]
    assert list(held(attempt).values()) == ["b", "b"]
    assert not attempt.ready()
    assert attempt.pending.ready_with(attempt.statement.kernels)


def test_nothing_is_reserved_where_reserving_is_not_allowed_or_nothing_is_released() -> None:
    engine = EngineParts(agent("b", "cpu=4", used="cpu=4", leaving="cpu=4"))
    attempt = attempt_of(engine, gang("s", 1, "cpu=1"))
    attempt.placer.may_reserve = False
    attempt.placer.fill(attempt.pending.batches, engine.all_agents)
    assert held(attempt) == {}
    assert held(filled(EngineParts(agent("b", "cpu=4", used="cpu=4")), gang("s", 1, "cpu=1"))) == {}


def test_no_more_is_reserved_than_the_session_needs_to_become_ready() -> None:
    engine = EngineParts(agent("b", "cpu=8", used="cpu=8", leaving="cpu=8"))
    attempt = filled(engine, gang("s", 6, "cpu=1", min_kernels=2))
    assert list(held(attempt)) == ["s-0", "s-1"]


def test_a_nominated_agent_is_tried_first_although_another_is_fuller() -> None:
    engine = EngineParts(agent("a", "cpu=8", used="cpu=4"), agent("b", "cpu=8"))
    assert seats(filled(engine, session("s", kernel("k", "cpu=1", nominated=AgentId("b"))))) == {"k": "b"}


@pytest.mark.parametrize(
    "nominee",
    [
        agent("b", "cpu=8", used="cpu=8"),
        agent("b", "cpu=8", architecture="aarch64"),
        agent("c", "cpu=8"),
    ],
    ids=["full", "not eligible", "not there"],
)
def test_a_nomination_that_cannot_be_met_does_not_hold_the_kernel_up(nominee: AgentInfo) -> None:
    engine = EngineParts(agent("a", "cpu=8", used="cpu=4"), nominee)
    assert seats(filled(engine, session("s", kernel("k", "cpu=1", nominated=AgentId("b"))))) == {"k": "a"}


def test_a_nominated_agent_outside_the_range_is_not_used() -> None:
    engine = EngineParts(agent("a", "cpu=8"), agent("b", "cpu=8"))
    attempt = attempt_of(engine, session("s", kernel("k", "cpu=1", nominated=AgentId("b"))))
    attempt.placer.fill(attempt.pending.batches, range(1))
    assert seats(attempt) == {"k": "a"}


def test_a_nominated_agent_is_waited_for_in_preference_to_another() -> None:
    full = {"used": "cpu=8", "leaving": "cpu=8"}
    engine = EngineParts(agent("a", "cpu=8", **full), agent("b", "cpu=8", **full))
    assert held(filled(engine, session("s", kernel("k", "cpu=1")))) == {"k": "a"}
    engine = EngineParts(agent("a", "cpu=8", **full), agent("b", "cpu=8", **full))
    assert held(filled(engine, session("s", kernel("k", "cpu=1", nominated=AgentId("b"))))) == {"k": "b"}


def test_a_queue_lets_in_no_more_than_it_may_use_counting_what_the_statement_holds() -> None:
    engine = EngineParts(*agents(2, "cpu=8"), queues=(queue("default", capability="cpu=3"),))
    work = session("s", kernel("large", "cpu=2"), *gang("s", 4, "cpu=1").kernels, min_kernels=3)
    attempt = filled(engine, work)
    assert list(seats(attempt)) == ["large", "s-0"]
    assert attempt.placer.refusal is not None
    assert (attempt.placer.refusal.code, attempt.placer.refusal.used, attempt.placer.refusal.limit) == (
        Code.QUEUE_LIMIT,
        2000,
        3000,
    )


def test_so_many_kernels_are_placed_exactly_or_the_answer_is_no() -> None:
    engine = EngineParts(*agents(1, "cpu=4"))
    attempt = attempt_of(engine, gang("s", 6, "cpu=1", min_kernels=1))
    assert attempt.placer.fill_exactly(attempt.pending.batches, 3, engine.all_agents)
    assert list(seats(attempt)) == ["s-0", "s-1", "s-2"]
    assert not attempt_of(engine, gang("t", 3, "cpu=1")).placer.fill_exactly(
        engine.pending(gang("t", 3, "cpu=1")).batches, 2, range(1)
    )


def test_a_shape_that_fits_no_agent_is_cached_only_if_nothing_tentative_takes_the_room() -> None:
    engine = EngineParts(agent("a", "cpu=4"))
    for work in (gang("s", 2, "cpu=3"), gang("t", 1, "cpu=9")):
        filled(engine, work).statement.rollback()
    assert engine.context.fit_error_cache == {engine.shape("cpu=9")}


def test_a_shape_that_fits_no_agent_of_a_range_is_not_cached() -> None:
    engine = EngineParts(agent("a", "cpu=4"), agent("b", "cpu=9"))
    attempt = attempt_of(engine, gang("s", 1, "cpu=9"))
    attempt.placer.fill(attempt.pending.batches, range(1))
    assert attempt.placer.misfit is engine.shape("cpu=9")
    assert engine.context.fit_error_cache == set()


def test_a_shape_in_the_fit_error_cache_is_not_tried_again() -> None:
    engine = EngineParts(agent("a", "cpu=4"))
    engine.context.fit_error_cache = {engine.shape("cpu=1")}
    attempt = filled(engine, gang("s", 1, "cpu=1"))
    assert seats(attempt) == {}
    assert attempt.placer.misfit is engine.shape("cpu=1")


sizes = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20), st.booleans()), min_size=1, max_size=8)


@pytest.mark.slow
@at_most(80)
@given(sizes=sizes, count=st.integers(32, 70), held_first=st.booleans())
def test_filling_many_kernels_by_array_equals_placing_them_one_by_one(
    sizes: list[tuple[int, int, bool]], count: int, held_first: bool
) -> None:
    def build() -> EngineParts:
        made = EngineParts(*(
            agent(f"a{index}", f"cpu={cpu}{' cuda.device=1' if gpu else ''}", used=f"cpu={min(cpu, used)}",
                  leaving=f"cpu={min(cpu, used)}")
            for index, (cpu, used, gpu) in enumerate(sizes)
        ))  # fmt: skip
        if held_first:
            blocker = attempt_of(made, gang("first", 1, "cpu=1"))
            blocker.placer.reserve(blocker.pending.batches[0], blocker.pending.batches[0].kernels, made.all_agents)
        return made

    at_once, one_by_one = build(), build()
    work = gang("s", count, "cpu=1")
    whole, single = attempt_of(at_once, work), attempt_of(one_by_one, work)
    got = whole.placer.place(whole.pending.batches[0], list(whole.pending.batches[0].kernels), at_once.all_agents)
    for one in single.pending.batches[0].kernels:
        single.placer.place(single.pending.batches[0], [one], one_by_one.all_agents)
    assert seats(whole) == seats(single)
    assert got == len(single.statement.placed)
    assert at_once.workspace.room.tobytes() == one_by_one.workspace.room.tobytes()
    assert at_once.workspace.occupancy.tobytes() == one_by_one.workspace.occupancy.tobytes()
    assert (whole.placer.misfit is None) == (single.placer.misfit is None)


def starving() -> TakerParts:
    return TakerParts(cluster(runs("low", "a"), waiting_session("taker", priority=9)))


def test_statements_of_a_trial_are_rolled_back_with_what_the_session_knew() -> None:
    made = starving()
    context, pending = made.engine.context, made.pending
    room, cache = context.workspace.room.copy(), context.fit_error_cache
    with context.tried(pending) as trial:
        assert context.fit_error_cache is None
        trial.statement().evict(made.table.shapes[0], 0)
        pending.reason, pending.kernels_fit = PendingReason(Code.PLUGIN_FAILED), 7
        before = context.workspace.releases
    assert before
    assert context.workspace.room.tolist() == room.tolist()
    assert not context.workspace.releases
    known: tuple[object, int] = (pending.reason, pending.kernels_fit)
    assert known == (None, 0)
    assert context.fit_error_cache is cache


def test_a_trial_that_is_kept_keeps_its_changes_but_not_the_reason() -> None:
    made = starving()
    context, undone = made.engine.context, list[str]()
    with context.tried(made.pending) as trial:
        trial.undo_with(lambda: undone.append("usage"))
        trial.statement().evict(made.table.shapes[0], 0)
        made.pending.reason = PendingReason(Code.PLUGIN_FAILED)
        trial.kept = True
    assert context.workspace.releases
    known: tuple[object, object] = (made.pending.reason, undone)
    assert known == (None, [])


def test_changes_are_undone_last_one_first_after_an_exception() -> None:
    made, undone = starving(), list[str]()

    def fails() -> None:
        with made.engine.context.tried(made.pending) as trial:
            trial.undo_with(lambda: undone.append("first"))
            trial.undo_with(lambda: undone.append("second"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert undone == ["second", "first"]
