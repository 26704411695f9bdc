"""The choice of an agent: one number per agent, brought up to date from what has changed."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sokovan.scheduling.engine.agent_choice import KeyedChoice
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.selectors.dispersed import DispersedSelector
from tests.unit.scheduling.engine.builders import Bench, agent, kernel

ANY = kernel("any", "cpu=1")


def now(bench: Bench, slots: str, low: int = 0, high: int | None = None) -> str | None:
    ids = bench.workspace.ids
    row = bench.choice.now(bench.shape(slots), low, len(ids) if high is None else high, ANY)
    return None if row < 0 else ids[row]


def later(bench: Bench, slots: str) -> str | None:
    ids = bench.workspace.ids
    row = bench.choice.later(bench.shape(slots), 0, len(ids), ANY)
    return None if row < 0 else ids[row]


def test_the_fullest_agent_that_fits_is_chosen_then_the_smaller_then_the_first_by_id() -> None:
    bench = Bench(
        agent("a", "cpu=8", used="cpu=4"), agent("b", "cpu=8", used="cpu=6"), agent("c", "cpu=8", used="cpu=8")
    )
    assert now(bench, "cpu=1") == "b"
    assert now(Bench(agent("a", "cpu=8"), agent("b", "cpu=4"), agent("c", "cpu=4")), "cpu=1") == "b"


def test_only_the_agents_of_the_span_are_asked() -> None:
    bench = Bench(agent("a", "cpu=8", used="cpu=7"), agent("b", "cpu=8"), agent("c", "cpu=8", used="cpu=1"))
    assert now(bench, "cpu=1", 1, 3) == "c"
    assert now(bench, "cpu=1", 1, 2) == "b"
    assert now(bench, "cpu=1", 1, 1) is None


def test_no_agent_is_chosen_where_none_fits() -> None:
    bench = Bench(agent("a", "cpu=8", used="cpu=7"))
    assert now(bench, "cpu=2") is None
    assert now(Bench(), "cpu=1") is None


def test_an_agent_that_is_being_freed_is_chosen_for_later_but_not_for_now() -> None:
    bench = Bench(agent("a", "cpu=8", used="cpu=8"), agent("b", "cpu=8", used="cpu=8", leaving="cpu=8"))
    assert now(bench, "cpu=2") is None
    assert later(bench, "cpu=2") == "b"


def test_room_that_is_held_for_one_session_is_not_given_to_another() -> None:
    bench = Bench(agent("a", "cpu=8", used="cpu=6", leaving="cpu=6"))
    assert now(bench, "cpu=2") == "a"
    Statement(bench.workspace).reserve(bench.shape("cpu=7"), 0)
    assert now(bench, "cpu=2") is None
    assert now(bench, "cpu=1") == "a"


def test_a_kernel_without_need_for_accelerators_leaves_them_alone_while_others_fit() -> None:
    bench = Bench(agent("gpu", "cpu=8 cuda.device=8", used="cpu=7"), agent("plain", "cpu=8"))
    assert now(bench, "cpu=1") == "plain"
    Statement(bench.workspace).place(bench.shape("cpu=8"), bench.row("plain"))
    assert now(bench, "cpu=1") == "gpu"


def test_an_agent_that_is_far_over_its_capacity_is_no_more_attractive_than_a_full_one() -> None:
    bench = Bench(agent("gpu", "cpu=1 mem=8Gi cuda.device=1", used="cpu=3"), agent("plain", "cpu=1 mem=8Gi"))
    assert now(bench, "mem=1Gi") == "plain"


def test_the_own_shard_comes_before_accelerators_and_occupancy() -> None:
    machines = (
        agent("mine", "cpu=8 cuda.device=8", shard="mine"),
        agent("yours", "cpu=8", used="cpu=7", shard="yours"),
    )
    assert now(Bench(*machines, own_shard="mine"), "cpu=1") == "mine"
    assert now(Bench(*machines), "cpu=1") == "yours"


def test_nothing_but_room_speaks_against_an_agent() -> None:
    bench = Bench(agent("a", "cpu=8"))
    assert bench.choice.allows(ANY, 0)
    bench.choice.chosen(0)
    assert bench.choice.cursor is None


def fresh(bench: Bench, shape: Shape, *, choice: KeyedChoice | None = None) -> list[int]:
    """The keys as they are when nothing was known before."""
    kept, shape.keys = shape.keys, None
    keys = (choice or bench.choice).keys(shape).tolist()
    shape.keys, shape.seen = kept, len(bench.workspace.log)
    return list(keys)


moves = st.lists(
    st.tuples(
        st.sampled_from(["place", "many", "reserve", "rollback", "commit", "look"]),
        st.integers(0, 4),
        st.sampled_from(["cpu=1", "cpu=2 mem=1Gi", "mem=5Ti"]),
    ),
    max_size=30,
)


@settings(max_examples=80)
@given(moves=moves)
def test_keys_brought_up_to_date_from_the_log_equal_keys_computed_anew(moves: list[tuple[str, int, str]]) -> None:
    bench = Bench(
        agent("a0", "cpu=8 mem=9Ti", used="cpu=3", leaving="cpu=3"),
        agent("a1", "cpu=4 mem=1Ti", kernels_max=3),
        agent("a2", "cpu=16 mem=6Ti cuda.device=2"),
        agent("a3", "cpu=8 mem=9Ti", used="mem=8Ti", leaving="mem=8Ti"),
        agent("a4", "cpu=2 mem=1Ti"),
    )
    watched = [bench.shape(slots) for slots in ("cpu=1", "cpu=3", "mem=2Ti")]
    statement = Statement(bench.workspace)
    for kind, where, slots in moves:
        shape = bench.shape(slots)
        if kind == "place":
            statement.place(shape, where)
        elif kind == "many":
            statement.place_many(shape, np.array([where, (where + 1) % 5]), np.array([1, 2]))
        elif kind == "reserve":
            statement.reserve(shape, where)
        elif kind == "rollback":
            statement.rollback(statement.checkpoint() // 2)
        elif kind == "commit":
            statement.commit()
        else:
            assert bench.choice.keys(watched[where % 3]).tolist() == fresh(bench, watched[where % 3])
    for shape in watched:
        assert bench.choice.keys(shape).tolist() == fresh(bench, shape)


def test_two_agents_never_share_a_key_so_that_no_tie_can_wobble() -> None:
    bench = Bench(*(agent(f"a{index}", "cpu=8") for index in range(20)))
    keys = bench.choice.keys(bench.shape("cpu=1")).tolist()
    assert len(set(keys)) == 20
    assert keys == sorted(keys, reverse=True)


def test_a_weight_that_prefers_the_idle_moves_on_after_every_placement() -> None:
    bench = Bench(agent("a", "cpu=8"), agent("b", "cpu=8"))
    selector = DispersedSelector()
    spread = KeyedChoice(
        bench.table, rank=selector.static_rank(bench.workspace), weight=selector.weight, fills=selector.fills
    )
    statement, shape, chosen = Statement(bench.workspace), bench.shape("cpu=1"), []
    for _ in range(4):
        row = spread.now(shape, 0, 2, ANY)
        statement.place(shape, row)
        chosen.append(bench.workspace.ids[row])
    assert chosen == ["a", "b", "a", "b"]


def test_agents_that_are_known_to_fit_are_weighed_without_asking_again() -> None:
    bench = Bench(agent("a", "cpu=8", used="cpu=8"), agent("b", "cpu=8"))
    shape = bench.shape("cpu=1")
    assert bench.choice.keys(shape)[0] == -1
    weighed = bench.choice.weighed(shape, np.array([0, 1]))
    assert weighed[0] > weighed[1] == bench.choice.keys(shape)[1]
