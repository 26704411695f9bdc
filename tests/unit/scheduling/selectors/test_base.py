"""Selectors in the plain and the vector form, built-in and custom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.slot_notation import format_slots, parse_slots
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.selectors.base import (
    AgentSelection,
    AgentSelectionCriteria,
    AgentSelector,
    Candidates,
    ResourceRequirements,
    candidates_of,
    fits_now,
    largest_of,
    occupancy_of,
    size_of,
    unused_accelerators,
)
from sokovan.scheduling.selectors.exceptions import AgentSelectionError, NoAvailableAgentError
from tests.quick import at_most
from tests.unit.scheduling.little_cluster import agent, decide, kernel, registry_with, session, snapshot, where
from tests.unit.scheduling.selectors.two_forms import chosen


class AffinitySelector(AgentSelector):
    """The plain form, as a third party would write it: agents that have the image already come first."""

    name = "affinity"

    def select(
        self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
    ) -> AgentSelection:
        del criteria
        candidates = self._filter_by_resources(agents, requirements)
        if not candidates:
            raise NoAvailableAgentError("unknown")
        for candidate in candidates:
            if requirements.image in candidate.cached_images:
                return AgentSelection(candidate.agent_id)
        return AgentSelection(candidates[0].agent_id)


class MostIdleCpu(AffinitySelector):
    """The vector form: a number per candidate, the highest wins."""

    name = "most-idle-cpu"

    def score(self, candidates: Candidates) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return candidates.idle[:, candidates.slots.index("cpu")]


CUSTOM = registry_with(selectors={"affinity": AffinitySelector, "most-idle-cpu": MostIdleCpu})


def test_a_custom_selector_in_plain_form_chooses_through_the_whole_cycle() -> None:
    agents = [agent("a"), agent("b", cached_images=frozenset({"torch"}))]
    sessions = [session("s", kernel("s.0", image="torch")), session("t", kernel("t.0", image="jax"))]
    assert where(decide(snapshot(agents, sessions), CUSTOM, selector="affinity")) == {"s.0": "b", "t.0": "a"}


def test_a_custom_selector_in_plain_form_sees_what_was_placed_before() -> None:
    agents = [agent("a", "cpu=2"), agent("b", "cpu=2"), agent("c", "cpu=2")]
    plan = decide(snapshot(agents, [session("s", *["cpu=1"] * 5)]), CUSTOM, selector="affinity")
    assert list(where(plan).values()) == ["a", "a", "b", "b", "c"]


def test_a_custom_selector_in_vector_form_is_called_for_scores_and_ties_go_by_id() -> None:
    agents = [agent("b", "cpu=4"), agent("a", "cpu=3"), agent("c", "cpu=4")]
    sessions = [session(name) for name in "stuv"]
    plan = decide(snapshot(agents, sessions), CUSTOM, selector="most-idle-cpu")
    assert list(where(plan).values()) == ["b", "c", "a", "b"]


def test_a_selector_that_only_scores_can_be_called_in_plain_form_too() -> None:
    class LeastIdle(AgentSelector):
        name = "least-idle"

        def score(self, candidates: Candidates) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
            return -candidates.idle[:, candidates.slots.index("cpu")]

    agents = [agent("c", "cpu=4", used="cpu=2"), agent("b", "cpu=4", used="cpu=2"), agent("a", "cpu=4")]
    asks = ResourceRequirements(parse_slots("cpu=1"))
    assert LeastIdle().select(asks, agents, AgentSelectionCriteria()).agent_id == "b"
    registry = registry_with(selectors={"least-idle": LeastIdle})
    assert where(decide(snapshot(agents, [session("s")]), registry, selector="least-idle")) == {"s.0": "b"}


def test_a_selector_without_any_form_says_so() -> None:
    asks = ResourceRequirements(parse_slots("cpu=1"))
    with pytest.raises(AgentSelectionError, match="has neither select nor score"):
        AgentSelector().select(asks, [agent("a")], AgentSelectionCriteria())


def test_the_candidates_of_the_vector_form_are_rows_of_one_table() -> None:
    tables: list[Candidates] = []

    class Watches(AffinitySelector):
        name = "watches"

        def score(self, candidates: Candidates) -> None:
            tables.append(candidates)

    agents = [agent("b", "cpu=4 mem=8", used="cpu=1"), agent("a", "cpu=2 mem=8"), agent("full", "cpu=1", used="cpu=1")]
    seen = snapshot(agents, [session("s", "cpu=1")], cursors={"default": AgentId("a")})
    decide(seen, registry_with(selectors={"watches": Watches}), selector="watches")
    [table] = tables
    assert (table.ids, table.slots, table.agents_total) == (("a", "b"), ("cpu", "mem"), 3)
    assert table.capacity.tolist() == [[2000, 8], [4000, 8]]
    assert table.idle.tolist() == [[2000, 8], [3000, 8]]
    assert table.occupancy[0] == 0 < table.occupancy[1]
    assert (table.id_rank.tolist(), table.last_rank) == ([0, 1], 1)
    assert table.requirements.requested_slots == parse_slots("cpu=1")


SLOTS = st.fixed_dictionaries({"cpu": st.integers(1, 6), "mem": st.integers(0, 4), "cuda.device": st.integers(0, 2)})


@st.composite
def some_agents(draw: st.DrawFn) -> list[AgentInfo]:
    """Agents in any state of use; the first can take any kernel of one cpu."""
    made = [agent("m", "cpu=2")]
    for name in draw(st.lists(st.sampled_from("abcxyz"), max_size=5, unique=True)):
        has = draw(SLOTS)
        used = {slot: draw(st.integers(0, amount)) for slot, amount in has.items()}
        made.append(agent(name, _written(has), used=_written(used)))
    return made


def _written(amounts: dict[str, int]) -> str:
    return " ".join(f"{slot}={amount}" for slot, amount in amounts.items())


@pytest.mark.slow
@pytest.mark.parametrize("selector", BUILT_IN.selectors)
@at_most(50)
@given(agents=some_agents(), last=st.sampled_from([None, "a", "b", "m", "q", "z"]))
def test_the_plain_and_the_vector_form_agree_on_any_agents(
    selector: str, agents: list[AgentInfo], last: str | None
) -> None:
    assert chosen(selector, agents, last=last) in {one.agent_id for one in agents}


def test_an_agent_fits_if_every_predicate_passes() -> None:
    asks = ResourceRequirements(parse_slots("cpu=1"), require={"zone": "x"})
    fitting = agent("a", labels={"zone": "x"}, kernels_max=1)
    assert fits_now(fitting, asks)
    assert candidates_of(asks, [fitting, agent("b")]) == [fitting]
    assert not fits_now(agent("a"), asks)
    assert not fits_now(agent("a", labels={"zone": "x"}, kernels_max=0), asks)
    assert not fits_now(agent("a", labels={"zone": "x"}, used="cpu=4"), asks)
    assert not fits_now(agent("a", labels={"zone": "x"}, architecture="aarch64"), asks)


def test_a_kernel_without_an_architecture_goes_anywhere() -> None:
    asks = ResourceRequirements(parse_slots("cpu=1"), architecture=None)
    assert fits_now(agent("a", architecture="riscv64"), asks)


def test_occupancy_and_size_are_parts_of_a_whole_in_fixed_point() -> None:
    one = 1 << 20
    half = agent("a", "cpu=4 mem=8", used="cpu=1 mem=4")
    assert occupancy_of(half) == one // 2
    assert occupancy_of(agent("a", "")) == 0
    assert size_of(half, parse_slots("cpu=8 mem=8")) == one // 2 + one
    assert size_of(half, None) == 2 * one


def test_the_largest_amounts_are_taken_slot_by_slot() -> None:
    assert format_slots(largest_of([agent("a", "cpu=4 mem=1Ki"), agent("b", "cpu=2 mem=8Ki")])) == "cpu=4 mem=8Ki"


def test_only_devices_and_shares_that_are_not_requested_count_as_unused_accelerators() -> None:
    rich = agent("a", "cpu=1 mem=1 cuda.device=1 cuda.mem=1 tpu.shares=1")
    assert unused_accelerators(rich, ResourceRequirements(parse_slots("cpu=1"))) == 2
    assert unused_accelerators(rich, ResourceRequirements(parse_slots("cuda.device=1"))) == 1
