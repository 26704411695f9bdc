"""Workspace: free amounts now and later, and the occupancy of each agent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.topology import HyperNode, HyperNodeTree
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.engine.workspace import NO_LIMIT, ONE, Ints, LoggedColumn, Workspace
from tests.quick import at_most
from tests.unit.scheduling.engine.builders import EngineParts, agent, rack

TIB = 2**40


def workspace(*machines: AgentInfo, hypernodes: tuple[HyperNode, ...] = (), slots: tuple[str, ...] = ()) -> Workspace:
    return Workspace(machines, HyperNodeTree((m.agent_id for m in machines), hypernodes), slots)


def test_agents_stand_in_depth_first_order_so_that_every_hypernode_is_a_slice() -> None:
    space = workspace(
        agent("a1", "cpu=1"), agent("a2", "cpu=2"), agent("a3", "cpu=3"), agent("a4", "cpu=4"), agent("a5", "cpu=5"),
        hypernodes=(rack("r1", "a4", "a1"), rack("r2", "a3"), rack("hall", "r1", "r2", tier=2)),
    )  # fmt: skip
    assert space.ids == ("a2", "a5", "a1", "a4", "a3")
    low, high = space.tree.span("r1")
    assert space.idle[low:high, 0].tolist() == [1000, 4000]
    low, high = space.tree.span("hall")
    assert space.ids[low:high] == ("a1", "a4", "a3")
    assert [space.position[name] for name in space.ids] == [0, 1, 2, 3, 4]


def test_columns_are_all_slots_that_are_present_or_requested_by_name() -> None:
    space = workspace(agent("a1", "mem=1Gi cpu=1"), slots=("cuda.device",))
    assert space.slots == ("cpu", "cuda.device", "mem")
    assert space.idle[0, :-1].tolist() == [1000, 0, 2**30]


def test_idle_is_what_is_unused_and_future_idle_adds_what_is_being_released() -> None:
    space = workspace(
        agent("a1", "cpu=8", used="cpu=6", leaving="cpu=2", kernels_max=5, kernel_count=3, releasing_count=1)
    )
    assert space.idle.tolist() == [[2000, 2]]
    assert space.future.tolist() == [[4000, 3]]
    assert space.releases


def test_an_agent_without_a_kernel_limit_has_places_enough_for_any_session() -> None:
    space = workspace(agent("a1", "cpu=8"))
    assert space.idle.tolist() == [[8000, NO_LIMIT]]
    assert not space.releases


def test_an_agent_that_shrank_below_what_runs_on_it_has_a_negative_free_amount() -> None:
    space = workspace(agent("a1", "cpu=2", used="cpu=3"))
    assert space.idle[0, 0] == -1000


def test_occupancy_is_the_largest_used_part_of_any_slot_rounded_down() -> None:
    space = workspace(agent("a1", "cpu=3 mem=4Gi", used="cpu=1 mem=1Gi"))
    assert space.occupancy.tolist() == [ONE // 3]
    assert ONE % 3 != 0


def test_an_agent_over_its_capacity_counts_as_full() -> None:
    engine = EngineParts(agent("a1", "cpu=2", used="cpu=7"))
    assert engine.workspace.occupancy.tolist() == [ONE]
    engine.workspace.take(0, engine.shape("").both)
    assert engine.workspace.occupancy.tolist() == [ONE]


def test_an_agent_far_over_a_large_memory_counts_as_full_too() -> None:
    assert workspace(agent("a1", "mem=4Ti", used="mem=17Ti")).occupancy.tolist() == [ONE]


def test_a_slot_that_an_agent_does_not_have_does_not_count_in_its_occupancy() -> None:
    space = workspace(agent("a1", "cpu=4", used="cpu=1"), agent("a2", "cuda.device=1"))
    assert space.occupancy.tolist() == [ONE // 4, 0]


def test_an_agent_is_as_large_as_its_parts_of_the_largest_agent_together() -> None:
    space = workspace(agent("a1", "cpu=4 mem=4Gi"), agent("a2", "cpu=8 mem=1Gi"))
    assert space.size.tolist() == [ONE // 2 + ONE, ONE + ONE // 4]


def test_a_request_is_as_large_as_the_largest_part_it_takes_of_the_largest_agent() -> None:
    space = workspace(agent("a1", "cpu=4 mem=4Gi"), agent("a2", "cpu=8 mem=1Gi"))
    request = np.array(space.row_of(parse_slots("cpu=2 mem=2Gi")), np.int64)
    assert space.size_of(request) == ONE // 2


@pytest.mark.parametrize("terabytes", [1, 4, 8, 1024, 8192])
def test_memory_that_a_product_could_not_hold_is_shared_out_by_the_same_parts(terabytes: int) -> None:
    slots, quarter = f"mem={terabytes}Ti", f"mem={terabytes * 256}Gi"
    space = workspace(agent("a1", slots, used=quarter), agent("a2", slots))
    assert space.occupancy.tolist() == [ONE // 4, 0]
    assert space.size.tolist() == [ONE, ONE]
    request = np.array(space.row_of(parse_slots(quarter)), np.int64)
    assert space.size_of(request) == ONE // 4


def test_amounts_stay_exact_however_large_they_are() -> None:
    engine = EngineParts(agent("a1", f"mem={8192 * TIB}"))
    engine.workspace.take(0, engine.shape("mem=1").both)
    assert engine.idle("a1")["mem"] == 8192 * TIB - 1


def test_taking_lowers_both_idle_and_future_and_raises_occupancy() -> None:
    engine = EngineParts(agent("a1", "cpu=8", used="cpu=2", leaving="cpu=2"))
    engine.workspace.take(0, engine.shape("cpu=4").both)
    assert engine.idle("a1") == {"cpu": 2000}
    assert engine.future("a1") == {"cpu": 4000}
    assert engine.workspace.occupancy.tolist() == [ONE * 6 // 8]


def test_holding_lowers_future_only_and_counts_the_promise() -> None:
    engine = EngineParts(agent("a1", "cpu=8", used="cpu=8", leaving="cpu=8"))
    before = engine.workspace.occupancy.copy()
    engine.workspace.hold(0, engine.shape("cpu=3").later, 1)
    assert engine.idle("a1") == {"cpu": 0}
    assert engine.future("a1") == {"cpu": 5000}
    assert engine.workspace.held == 1
    assert (engine.workspace.occupancy == before).all()
    engine.workspace.hold(0, -engine.shape("cpu=3").later, -1)
    assert engine.future("a1") == {"cpu": 8000}
    assert engine.workspace.held == 0


def test_what_a_kernel_will_leave_behind_counts_for_later_only() -> None:
    engine = EngineParts(agent("a1", "cpu=8", used="cpu=8"))
    engine.workspace.free_soon(0, engine.shape("cpu=3").later)
    assert engine.idle("a1") == {"cpu": 0}
    assert engine.future("a1") == {"cpu": 3000}
    assert engine.workspace.releases


def test_every_change_is_in_the_log_in_the_order_in_which_it_was_made() -> None:
    engine = EngineParts(agent("a1", "cpu=8"), agent("a2", "cpu=8"), agent("a3", "cpu=8"))
    shape, space = engine.shape("cpu=1"), engine.workspace
    space.take(2, shape.both)
    space.take_many(np.array([0, 1]), shape.both, np.array([1, 2]))
    space.hold(1, shape.later, 1)
    space.free_soon(0, shape.later)
    assert space.log == [2, 0, 1, 1, 0]


machines = st.lists(
    st.tuples(st.integers(1, 64), st.sampled_from([0, 2**30, 2**41 + 7, 2**43 + 1, 2**52])), min_size=1, max_size=6
)


@at_most(80)
@given(sizes=machines, amount=st.tuples(st.integers(0, 3000), st.integers(0, 2**45)), counts=st.data())
def test_taking_from_many_agents_at_once_equals_taking_one_by_one(
    sizes: list[tuple[int, int]], amount: tuple[int, int], counts: st.DataObject
) -> None:
    infos = [agent(f"a{index}", f"cpu={cpu} mem={mem}") for index, (cpu, mem) in enumerate(sizes)]
    at_once, one_by_one = EngineParts(*infos), EngineParts(*infos)
    slots = f"cpu={amount[0]}m mem={amount[1]}"
    taken = counts.draw(st.lists(st.integers(0, 4), min_size=len(infos), max_size=len(infos)))
    at_once.workspace.take_many(np.arange(len(infos)), at_once.shape(slots).both, np.array(taken))
    for index, times in enumerate(taken):
        for _ in range(times):
            one_by_one.workspace.take(index, one_by_one.shape(slots).both)
    assert at_once.workspace.room.tobytes() == one_by_one.workspace.room.tobytes()
    assert at_once.workspace.occupancy.tobytes() == one_by_one.workspace.occupancy.tobytes()


def test_the_total_is_what_agents_that_take_work_have_and_what_runs_on_the_others() -> None:
    space = workspace(
        agent("a1", "cpu=4", used="cpu=1"), agent("a2", "cpu=8", used="cpu=3", status=AgentStatus.DRAINING)
    )
    assert space.total() == [7000]
    assert space.alive.tolist() == [True, False]


def test_agents_rank_by_id_wherever_they_stand() -> None:
    space = workspace(agent("b", "cpu=1"), agent("a", "cpu=1"), agent("c", "cpu=1"), hypernodes=(rack("r", "c"),))
    assert dict(zip(space.ids, space.id_rank.tolist(), strict=True)) == {"a": 0, "b": 1, "c": 2}


def test_a_cluster_without_agents_has_columns_and_no_rows() -> None:
    space = workspace(slots=("cpu",))
    assert space.slots == ("cpu",)
    assert space.room.shape == (0, 4)
    assert space.total() == [0]
    assert space.occupancy.tolist() == space.size.tolist() == []


def test_a_logged_column_asks_again_for_the_agents_that_changed() -> None:
    asked: list[object] = []
    numbers = np.arange(20)

    def many(agents: Ints | slice) -> Ints:
        asked.append(agents if isinstance(agents, slice) else agents.tolist())
        return numbers[agents].copy()

    def one(agent: int) -> int:
        asked.append(agent)
        return int(numbers[agent])

    column, log = LoggedColumn(), list[int]()
    assert column.updated(log, many, one).tolist() == list(range(20))
    numbers += 100
    log += [3, 3]
    assert column.updated(log, many, one)[:5].tolist() == [0, 1, 2, 103, 4]
    log += range(12)
    assert column.updated(log, many, one)[10:14].tolist() == [110, 111, 12, 13]
    log += range(20)
    assert column.updated(log, many, one).tolist() == list(range(100, 120))
    assert asked == [slice(None), 3, list(range(12)), slice(None)]
    column.updated(log, many, one)
    assert len(asked) == 4
