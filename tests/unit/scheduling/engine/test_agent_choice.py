"""AgentChoice: one key per agent, updated from the log of changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.scheduling.engine.agent_choice import KeyedChoice
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.selectors.dispersed import DispersedSelector
from tests.quick import at_most
from tests.unit.scheduling.engine.builders import EngineParts, agent, kernel

ANY = kernel("any", "cpu=1")


def now(engine: EngineParts, slots: str, low: int = 0, high: int | None = None) -> str | None:
    ids = engine.workspace.ids
    row = engine.choice.now(engine.shape(slots), low, len(ids) if high is None else high, ANY)
    return None if row < 0 else ids[row]


def later(engine: EngineParts, slots: str) -> str | None:
    ids = engine.workspace.ids
    row = engine.choice.later(engine.shape(slots), 0, len(ids), ANY)
    return None if row < 0 else ids[row]


def test_the_fullest_agent_that_fits_is_chosen_then_the_smaller_then_the_first_by_id() -> None:
    engine = EngineParts(
        agent("a", "cpu=8", used="cpu=4"), agent("b", "cpu=8", used="cpu=6"), agent("c", "cpu=8", used="cpu=8")
    )
    assert now(engine, "cpu=1") == "b"
    assert now(EngineParts(agent("a", "cpu=8"), agent("b", "cpu=4"), agent("c", "cpu=4")), "cpu=1") == "b"


def test_only_the_agents_of_the_range_are_considered() -> None:
    engine = EngineParts(agent("a", "cpu=8", used="cpu=7"), agent("b", "cpu=8"), agent("c", "cpu=8", used="cpu=1"))
    assert now(engine, "cpu=1", 1, 3) == "c"
    assert now(engine, "cpu=1", 1, 2) == "b"
    assert now(engine, "cpu=1", 1, 1) is None


def test_no_agent_is_chosen_where_none_fits() -> None:
    engine = EngineParts(agent("a", "cpu=8", used="cpu=7"))
    assert now(engine, "cpu=2") is None
    assert now(EngineParts(), "cpu=1") is None


def test_an_agent_that_is_being_freed_is_chosen_for_later_but_not_for_now() -> None:
    engine = EngineParts(agent("a", "cpu=8", used="cpu=8"), agent("b", "cpu=8", used="cpu=8", leaving="cpu=8"))
    assert now(engine, "cpu=2") is None
    assert later(engine, "cpu=2") == "b"


def test_room_that_is_held_for_one_session_is_not_given_to_another() -> None:
    engine = EngineParts(agent("a", "cpu=8", used="cpu=6", leaving="cpu=6"))
    assert now(engine, "cpu=2") == "a"
    engine.reserve("cpu=7", "a")
    assert now(engine, "cpu=2") is None
    assert now(engine, "cpu=1") == "a"


def test_a_kernel_without_need_for_accelerators_leaves_them_alone_while_others_fit() -> None:
    engine = EngineParts(agent("gpu", "cpu=8 cuda.device=8", used="cpu=7"), agent("plain", "cpu=8"))
    assert now(engine, "cpu=1") == "plain"
    engine.place("cpu=8", "plain")
    assert now(engine, "cpu=1") == "gpu"


def test_an_agent_that_is_far_over_its_capacity_is_no_more_attractive_than_a_full_one() -> None:
    engine = EngineParts(agent("gpu", "cpu=1 mem=8Gi cuda.device=1", used="cpu=3"), agent("plain", "cpu=1 mem=8Gi"))
    assert now(engine, "mem=1Gi") == "plain"


def test_the_own_shard_comes_before_accelerators_and_occupancy() -> None:
    machines = (
        agent("mine", "cpu=8 cuda.device=8", shard="mine"),
        agent("yours", "cpu=8", used="cpu=7", shard="yours"),
    )
    assert now(EngineParts(*machines, own_shard="mine"), "cpu=1") == "mine"
    assert now(EngineParts(*machines), "cpu=1") == "yours"


def test_every_agent_is_allowed_apart_from_room() -> None:
    engine = EngineParts(agent("a", "cpu=8"))
    assert engine.choice.allows(ANY, 0)
    engine.choice.chosen(0)
    assert engine.choice.cursor is None


def fresh(engine: EngineParts, shape: Shape, *, choice: KeyedChoice | None = None) -> list[int]:
    """The keys computed without a cache."""
    kept, shape.keys = shape.keys, None
    keys = (choice or engine.choice).keys(shape).tolist()
    shape.keys, shape.seen = kept, len(engine.workspace.log)
    return list(keys)


moves = st.lists(
    st.tuples(
        st.sampled_from(["place", "many", "reserve", "rollback", "commit", "look"]),
        st.integers(0, 4),
        st.sampled_from(["cpu=1", "cpu=2 mem=1Gi", "mem=5Ti"]),
    ),
    max_size=30,
)


@pytest.mark.slow
@at_most(80)
@given(moves=moves)
def test_keys_brought_up_to_date_from_the_log_equal_keys_computed_anew(moves: list[tuple[str, int, str]]) -> None:
    engine = EngineParts(
        agent("a0", "cpu=8 mem=9Ti", used="cpu=3", leaving="cpu=3"),
        agent("a1", "cpu=4 mem=1Ti", kernels_max=3),
        agent("a2", "cpu=16 mem=6Ti cuda.device=2"),
        agent("a3", "cpu=8 mem=9Ti", used="mem=8Ti", leaving="mem=8Ti"),
        agent("a4", "cpu=2 mem=1Ti"),
    )
    watched = [engine.shape(slots) for slots in ("cpu=1", "cpu=3", "mem=2Ti")]
    statement = engine.statement()
    for kind, where, slots in moves:
        batch = engine.batch(slots, 3)
        if kind == "place":
            statement.place(batch, batch.kernels[:1], where)
        elif kind == "many":
            statement.place_many(batch, batch.kernels, np.array([where, (where + 1) % 5]), np.array([1, 2]))
        elif kind == "reserve":
            statement.reserve(batch, batch.kernels[0], where)
        elif kind == "rollback":
            statement.rollback(statement.checkpoint() // 2)
        elif kind == "commit":
            statement.commit()
        else:
            assert engine.choice.keys(watched[where % 3]).tolist() == fresh(engine, watched[where % 3])
    for shape in watched:
        assert engine.choice.keys(shape).tolist() == fresh(engine, shape)


def test_two_agents_never_share_a_key_so_that_no_tie_can_wobble() -> None:
    engine = EngineParts(*(agent(f"a{index}", "cpu=8") for index in range(20)))
    keys = engine.choice.keys(engine.shape("cpu=1")).tolist()
    assert len(set(keys)) == 20
    assert keys == sorted(keys, reverse=True)


def test_a_weight_that_prefers_the_idle_moves_on_after_every_placement() -> None:
    engine = EngineParts(agent("a", "cpu=8"), agent("b", "cpu=8"))
    selector = DispersedSelector()
    spread = KeyedChoice(
        engine.table, rank=selector.static_rank(engine.workspace), weight=selector.weight, fills=selector.fills
    )
    statement, batch, chosen = Statement(engine.workspace, spread), engine.batch("cpu=1"), []
    for _ in range(4):
        row = spread.now(batch.shape, 0, 2, ANY)
        statement.place(batch, batch.kernels, row)
        chosen.append(engine.workspace.ids[row])
    assert chosen == ["a", "b", "a", "b"]


def test_agents_that_are_known_to_fit_are_weighed_without_asking_again() -> None:
    engine = EngineParts(agent("a", "cpu=8", used="cpu=8"), agent("b", "cpu=8"))
    shape = engine.shape("cpu=1")
    assert engine.choice.keys(shape)[0] == -1
    weighed = engine.choice.weighed(shape, np.array([0, 1]))
    assert weighed[0] > weighed[1] == engine.choice.keys(shape)[1]
