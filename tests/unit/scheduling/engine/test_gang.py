"""Trials: kernels are placed tentatively, enough of them together or none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.scheduling.engine.gang import Span, Trial
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.builders import Bench, agent, agents, gang, kernel, queue, session


def trial(bench: Bench, work: SessionWorkload) -> Trial:
    return Trial(bench.job(work), bench.workspace, bench.choice, bench.book)


def everywhere(bench: Bench) -> Span:
    return Span(0, len(bench.workspace.ids))


def filled(bench: Bench, work: SessionWorkload) -> Trial:
    attempt = trial(bench, work)
    attempt.fill(attempt.job.runs, everywhere(bench))
    return attempt


def seats(attempt: Trial) -> dict[str, str]:
    return {k.kernel_id: attempt.workspace.ids[where] for _, k, where in attempt.placed}


def held(attempt: Trial) -> dict[str, str]:
    return {k.kernel_id: attempt.workspace.ids[where] for _, k, where in attempt.reserved}


def test_a_gang_is_placed_whole_and_is_then_ready() -> None:
    attempt = filled(Bench(*agents(2, "cpu=2")), gang("s", 3, "cpu=1"))
    assert seats(attempt) == {"s-0": "a0", "s-1": "a0", "s-2": "a1"}
    assert attempt.ready()


def test_an_elastic_session_is_placed_up_to_its_minimum_in_one_go() -> None:
    attempt = filled(Bench(*agents(2, "cpu=4")), gang("s", 6, "cpu=1", min_kernels=2))
    assert list(seats(attempt)) == ["s-0", "s-1"]


def test_a_session_that_has_its_minimum_grows_by_one() -> None:
    running = kernel("runs", "cpu=1", at="a0")
    attempt = filled(Bench(*agents(1, "cpu=4")), session("s", running, *gang("s", 3, "cpu=1").kernels, min_kernels=1))
    assert list(seats(attempt)) == ["s-0"]


def test_a_gang_that_cannot_be_whole_stops_at_the_first_kernel_that_finds_nothing() -> None:
    work = session("s", kernel("large", "cpu=4"), kernel("small", "cpu=1"))
    attempt = filled(Bench(agent("a", "cpu=4", used="cpu=2")), work)
    assert seats(attempt) == {}
    assert not attempt.ready()
    assert attempt.short is attempt.job.runs[0].shape


def test_a_kernel_that_fits_nowhere_is_passed_over_while_the_rest_could_be_enough() -> None:
    work = session("s", kernel("large", "cpu=4"), kernel("small", "cpu=1"), kernel("small-too", "cpu=1"), min_kernels=2)
    attempt = filled(Bench(agent("a", "cpu=4", used="cpu=2")), work)
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
    attempt = filled(Bench(agent("a", "cpu=4", used="cpu=2")), work)
    assert seats(attempt) == {}


def test_all_groups_are_served_before_the_session_is_ready() -> None:
    work = session(
        "s",
        kernel("m", "cpu=2", group="master"),
        *(kernel(f"w{index}", "cpu=1", group="worker") for index in range(2)),
        min_kernels=1,
        group_minimums={"master": 1, "worker": 1},
    )
    attempt = filled(Bench(*agents(1, "cpu=8")), work)
    assert list(seats(attempt)) == ["m", "w0"]


def test_only_the_agents_of_the_span_are_used() -> None:
    bench = Bench(*agents(3, "cpu=2"))
    attempt = trial(bench, gang("s", 3, "cpu=1", min_kernels=1))
    assert attempt.place(attempt.job.runs[0], list(attempt.job.runs[0].kernels), Span(1, 2)) == 2
    assert set(seats(attempt).values()) == {"a1"}


def test_what_does_not_fit_now_waits_for_room_that_is_being_released() -> None:
    bench = Bench(agent("a", "cpu=2"), agent("b", "cpu=4", used="cpu=4", leaving="cpu=2"))
    attempt = filled(bench, gang("s", 4, "cpu=1"))
    assert list(seats(attempt).values()) == ["a", "a"]
    assert list(held(attempt).values()) == ["b", "b"]
    assert not attempt.ready()
    assert attempt.hoped()


def test_nothing_is_reserved_where_reserving_is_not_allowed_or_nothing_is_released() -> None:
    bench = Bench(agent("b", "cpu=4", used="cpu=4", leaving="cpu=4"))
    attempt = trial(bench, gang("s", 1, "cpu=1"))
    attempt.may_reserve = False
    attempt.fill(attempt.job.runs, everywhere(bench))
    assert held(attempt) == {}
    assert held(filled(Bench(agent("b", "cpu=4", used="cpu=4")), gang("s", 1, "cpu=1"))) == {}


def test_no_more_is_reserved_than_the_session_needs_to_become_ready() -> None:
    bench = Bench(agent("b", "cpu=8", used="cpu=8", leaving="cpu=8"))
    attempt = filled(bench, gang("s", 6, "cpu=1", min_kernels=2))
    assert list(held(attempt)) == ["s-0", "s-1"]


def test_going_back_restores_agents_and_lists_to_the_mark() -> None:
    bench = Bench(agent("a", "cpu=2"), agent("b", "cpu=4", used="cpu=4", leaving="cpu=4"))
    attempt = trial(bench, gang("s", 4, "cpu=1"))
    run = attempt.job.runs[0]
    attempt.place(run, run.kernels[:1], everywhere(bench))
    mark, room = attempt.mark(), bench.workspace.room.tobytes()
    attempt.place(run, run.kernels[1:2], everywhere(bench))
    attempt.reserve(run, run.kernels[2:], everywhere(bench))
    attempt.back(mark)
    assert bench.workspace.room.tobytes() == room
    assert bench.workspace.held == 0
    assert (list(seats(attempt)), held(attempt)) == (["s-0"], {})


def test_going_back_also_puts_the_rotation_back_where_it_was() -> None:
    attempt = trial(Bench(*agents(1, "cpu=2")), gang("s", 1, "cpu=1"))
    attempt.choice.cursor = "a0"
    mark = attempt.mark()
    attempt.choice.cursor = "a7"
    attempt.back(mark)
    assert attempt.choice.cursor == "a0"


def test_a_nominated_agent_is_tried_first_although_another_is_fuller() -> None:
    bench = Bench(agent("a", "cpu=8", used="cpu=4"), agent("b", "cpu=8"))
    assert seats(filled(bench, session("s", kernel("k", "cpu=1", nominated=AgentId("b"))))) == {"k": "b"}


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
    bench = Bench(agent("a", "cpu=8", used="cpu=4"), nominee)
    assert seats(filled(bench, session("s", kernel("k", "cpu=1", nominated=AgentId("b"))))) == {"k": "a"}


def test_a_nominated_agent_outside_the_span_is_not_used() -> None:
    bench = Bench(agent("a", "cpu=8"), agent("b", "cpu=8"))
    attempt = trial(bench, session("s", kernel("k", "cpu=1", nominated=AgentId("b"))))
    attempt.fill(attempt.job.runs, Span(0, 1))
    assert seats(attempt) == {"k": "a"}


def test_a_nominated_agent_is_waited_for_in_preference_to_another() -> None:
    full = {"used": "cpu=8", "leaving": "cpu=8"}
    bench = Bench(agent("a", "cpu=8", **full), agent("b", "cpu=8", **full))
    assert held(filled(bench, session("s", kernel("k", "cpu=1")))) == {"k": "a"}
    bench = Bench(agent("a", "cpu=8", **full), agent("b", "cpu=8", **full))
    assert held(filled(bench, session("s", kernel("k", "cpu=1", nominated=AgentId("b"))))) == {"k": "b"}


def test_a_queue_lets_in_no_more_than_it_may_use_counting_what_the_trial_holds() -> None:
    bench = Bench(*agents(2, "cpu=8"), queues=(queue("default", capability="cpu=3"),))
    work = session("s", kernel("large", "cpu=2"), *gang("s", 4, "cpu=1").kernels, min_kernels=3)
    attempt = filled(bench, work)
    assert list(seats(attempt)) == ["large", "s-0"]
    assert attempt.refusal is not None
    assert (attempt.refusal.code, attempt.refusal.used, attempt.refusal.limit) == (Code.QUEUE_LIMIT, 2000, 3000)


def test_so_many_kernels_are_placed_exactly_or_the_answer_is_no() -> None:
    bench = Bench(*agents(1, "cpu=4"))
    attempt = trial(bench, gang("s", 6, "cpu=1", min_kernels=1))
    assert attempt.fill_exactly(attempt.job.runs, 3, everywhere(bench))
    assert list(seats(attempt)) == ["s-0", "s-1", "s-2"]
    assert not trial(bench, gang("t", 3, "cpu=1")).fill_exactly(bench.job(gang("t", 3, "cpu=1")).runs, 2, Span(0, 1))


def test_a_shape_that_found_no_room_anywhere_is_remembered_only_if_nothing_tentative_was_in_its_way() -> None:
    bench = Bench(agent("a", "cpu=4"))
    fits_at_first, large = gang("s", 2, "cpu=3"), gang("t", 1, "cpu=9")
    known: set[object] = set()
    for work in (fits_at_first, large):
        attempt = trial(bench, work)
        attempt.misfits = known  # type: ignore[assignment]  # a set of shapes, shared by trials
        attempt.fill(attempt.job.runs, everywhere(bench))
        attempt.back(attempt.mark()._replace(checkpoint=0, placed=0, reserved=0))
    assert known == {bench.shape("cpu=9")}


def test_a_shape_that_is_known_to_fit_nowhere_is_not_tried_again() -> None:
    bench = Bench(agent("a", "cpu=4"))
    attempt = trial(bench, gang("s", 1, "cpu=1"))
    attempt.misfits = {bench.shape("cpu=1")}
    attempt.fill(attempt.job.runs, everywhere(bench))
    assert seats(attempt) == {}
    assert attempt.short is bench.shape("cpu=1")


sizes = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20), st.booleans()), min_size=1, max_size=8)


@settings(max_examples=80)
@given(sizes=sizes, count=st.integers(32, 70), held_first=st.booleans())
def test_filling_many_kernels_by_array_equals_placing_them_one_by_one(
    sizes: list[tuple[int, int, bool]], count: int, held_first: bool
) -> None:
    def bench() -> Bench:
        made = Bench(*(
            agent(f"a{index}", f"cpu={cpu}{' cuda.device=1' if gpu else ''}", used=f"cpu={min(cpu, used)}",
                  leaving=f"cpu={min(cpu, used)}")
            for index, (cpu, used, gpu) in enumerate(sizes)
        ))  # fmt: skip
        if held_first:
            blocker = trial(made, gang("first", 1, "cpu=1"))
            blocker.reserve(blocker.job.runs[0], blocker.job.runs[0].kernels, everywhere(made))
        return made

    at_once, one_by_one = bench(), bench()
    work = gang("s", count, "cpu=1")
    whole, single = trial(at_once, work), trial(one_by_one, work)
    got = whole.place(whole.job.runs[0], list(whole.job.runs[0].kernels), everywhere(at_once))
    for one in single.job.runs[0].kernels:
        single.place(single.job.runs[0], [one], everywhere(one_by_one))
    assert seats(whole) == seats(single)
    assert got == len(single.placed)
    assert at_once.workspace.room.tobytes() == one_by_one.workspace.room.tobytes()
    assert at_once.workspace.occupancy.tobytes() == one_by_one.workspace.occupancy.tobytes()
    assert (whole.short is None) == (single.short is None)
