"""SelectorChoice: calls a selector by keys, by vector scores, or with objects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.engine.agent_choice import KeyedChoice
from sokovan.scheduling.engine.shapes import ShapeTable
from sokovan.scheduling.engine.workspace import Ints, Workspace
from sokovan.scheduling.extensions import Extensions
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.selection import AgentTracker, SelectorChoice, choice_for
from sokovan.scheduling.selectors.base import (
    AgentSelection,
    AgentSelectionCriteria,
    AgentSelector,
    Candidates,
    ResourceRequirements,
)
from sokovan.scheduling.selectors.exceptions import NoAvailableAgentError, TrackerCompatibilityError
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.little_cluster import (
    agent,
    decide,
    kernel,
    plugin_with,
    registry_with,
    session,
    snapshot,
    started,
    verdict_of,
    where,
)


class FirstListed(AgentSelector):
    """A custom selector in plain form that takes the first agent."""

    name = "custom"

    def select(
        self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
    ) -> AgentSelection:
        del requirements, criteria
        return AgentSelection(agents[0].agent_id)


def plan_by(selector: type[AgentSelector], *sessions: SessionWorkload) -> SchedulingPlan:
    """The plan by a custom selector on two agents of four cpus."""
    registry = registry_with(selectors={"custom": selector})
    return decide(snapshot([agent("a"), agent("b")], sessions), registry, selector="custom")


def table_of(*agents: AgentInfo) -> ShapeTable:
    """The shapes of a workspace over these agents."""
    return ShapeTable(Workspace(agents, snapshot(agents).tree, {"cpu"}))


@pytest.mark.parametrize(
    ("selector", "kind"),
    [
        ("concentrated", KeyedChoice),
        ("dispersed", KeyedChoice),
        ("roundrobin", SelectorChoice),
        ("legacy", SelectorChoice),
    ],
)
def test_a_selector_with_a_fixed_rank_is_called_once_and_others_for_each_kernel(selector: str, kind: type) -> None:
    chosen = choice_for(
        BUILT_IN.selector(selector), table_of(agent("a")), Extensions(), slot_priority=(), cursor=AgentId("a")
    )
    assert isinstance(chosen, kind)


def test_a_plugin_that_scores_takes_even_a_keyed_selector_off_its_keys() -> None:
    scores = Extensions([plugin_with(agent_order_map=lambda _kernel, _agent: 1)()])
    chosen = choice_for(BUILT_IN.selector("concentrated"), table_of(agent("a")), scores, slot_priority=(), cursor=None)
    assert isinstance(chosen, SelectorChoice)


@pytest.mark.parametrize("selector", BUILT_IN.selectors)
def test_a_plugin_that_abstains_changes_no_selectors_choice(selector: str) -> None:
    def abstains(_kernel: KernelWorkload, candidates: Sequence[AgentInfo]) -> None:
        del candidates

    agents = [agent("c", "cpu=8", used="cpu=3"), agent("a", "cpu=8"), agent("b", "cpu=6 cuda.device=1", used="cpu=3")]
    sessions = [session("s", "cpu=1", "cpu=1", "cpu=1"), session("t", "cpu=2"), session("u", "cuda.device=1")]
    seen = snapshot(agents, sessions)
    quiet = registry_with(plugin_with(batch_agent_order=abstains))
    assert where(decide(seen, quiet, selector=selector)) == where(decide(seen, selector=selector))


def test_a_selector_that_raises_fails_the_session_in_its_own_name_and_others_go_on() -> None:
    class Picky(FirstListed):
        def select(
            self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
        ) -> AgentSelection:
            if requirements.requested_slots["cpu"] == 2000:
                raise ZeroDivisionError("two")
            return super().select(requirements, agents, criteria)

    plan = plan_by(Picky, session("bad", "cpu=2"), session("good", "cpu=1"))
    assert started(plan) == ["good"]
    assert verdict_of(plan, "bad").code is Code.PLUGIN_FAILED
    assert verdict_of(plan, "bad").summary == "plugin custom failed in select: ZeroDivisionError: two"


def test_a_selector_that_selects_no_agent_leaves_the_session_waiting_and_others_go_on() -> None:
    class Choosy(FirstListed):
        def select(
            self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
        ) -> AgentSelection:
            if requirements.requested_slots["cpu"] == 2000:
                raise NoAvailableAgentError("none is good enough")
            return super().select(requirements, agents, criteria)

    plan = plan_by(Choosy, session("waits", "cpu=2"), session("goes", "cpu=1"))
    assert started(plan) == ["goes"]
    assert verdict_of(plan, "waits").code not in {Code.PLACED, Code.PLUGIN_FAILED}


def test_a_selector_may_refuse_even_the_only_agent_that_fits() -> None:
    class Never(FirstListed):
        def select(
            self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
        ) -> AgentSelection:
            raise NoAvailableAgentError(f"not for {requirements.image} on {agents} by {criteria}")

    registry = registry_with(selectors={"custom": Never})
    assert started(decide(snapshot([agent("a")], [session("s")]), registry, selector="custom")) == []


def test_a_selector_that_refuses_one_image_is_called_again_for_another() -> None:
    class ByImage(FirstListed):
        def select(
            self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
        ) -> AgentSelection:
            if requirements.image == "unknown":
                raise NoAvailableAgentError("no agent has it")
            return super().select(requirements, agents, criteria)

    sessions = [session("s", kernel("s.0", image="unknown")), session("t", kernel("t.0", image="torch"))]
    assert started(plan_by(ByImage, *sessions)) == ["t"]


def test_a_selector_whose_fixed_rank_fails_is_called_in_its_plain_form() -> None:
    class BrokenRank(FirstListed):
        def static_rank(self, workspace: Workspace) -> Ints:
            raise ZeroDivisionError(f"{len(workspace.ids)} over 0")

    assert where(plan_by(BrokenRank, session("s"))) == {"s.0": "a"}


@pytest.mark.parametrize(
    ("chosen", "said"),
    [("unknown", "which is not an agent of this cycle"), ("full", "on which the kernel does not fit")],
)
def test_a_selector_that_chooses_what_it_was_not_offered_fails(chosen: str, said: str) -> None:
    class Stubborn(FirstListed):
        def select(
            self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
        ) -> AgentSelection:
            assert chosen not in {candidate.agent_id for candidate in agents}
            del requirements, criteria
            return AgentSelection(AgentId(chosen))

    agents = [agent("a"), agent("b"), agent("full", used="cpu=4")]
    registry = registry_with(selectors={"custom": Stubborn})
    plan = decide(snapshot(agents, [session("s")]), registry, selector="custom")
    assert verdict_of(plan, "s").code is Code.PLUGIN_FAILED
    assert "TrackerCompatibilityError" in verdict_of(plan, "s").summary
    assert said in verdict_of(plan, "s").summary


def test_scores_of_a_wrong_length_fail_the_session_and_not_the_cycle() -> None:
    class Short(FirstListed):
        def score(self, candidates: Candidates) -> Ints:
            return np.zeros(len(candidates.ids) - 1, np.int64)

    assert verdict_of(plan_by(Short, session("s")), "s").code is Code.PLUGIN_FAILED


def test_a_selector_receives_the_slot_priority_the_largest_agent_and_the_agent_before() -> None:
    told_by: list[AgentSelectionCriteria] = []

    class Watches(FirstListed):
        def select(
            self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
        ) -> AgentSelection:
            told_by.append(criteria)
            return super().select(requirements, agents, criteria)

    plan_by(Watches, session("s"), session("t"))
    assert [criteria.last_agent for criteria in told_by] == [None, "a"]
    assert told_by[0].largest == parse_slots("cpu=4")
    assert told_by[0].slot_priority[0] == "cuda.device"


def test_a_selector_is_offered_only_agents_without_accelerators_that_the_kernel_has_no_use_for() -> None:
    offered: list[list[str]] = []

    class Watches(FirstListed):
        def select(
            self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
        ) -> AgentSelection:
            offered.append([str(candidate.agent_id) for candidate in agents])
            return super().select(requirements, agents, criteria)

    agents = [agent("a", "cpu=4 cuda.device=1"), agent("b"), agent("c")]
    decide(snapshot(agents, [session("s")]), registry_with(selectors={"custom": Watches}), selector="custom")
    assert offered == [["b", "c"]]


@pytest.mark.parametrize("selector", BUILT_IN.selectors)
def test_agents_of_the_own_shard_come_first_or_alone(selector: str) -> None:
    agents = [agent("a", "cpu=8", shard="west"), agent("b", "cpu=1", shard="east"), agent("c", "cpu=8")]
    seen = snapshot(agents, [session("s"), session("t")])
    soft = decide(seen, selector=selector, shard="east", shard_mode="soft")
    assert where(soft)["s.0"] == "b"
    assert where(soft)["t.0"] in {"a", "c"}
    assert where(decide(seen, selector=selector, shard="east", shard_mode="hard")) == {"s.0": "b"}


def test_the_tracker_shows_agents_as_they_are_by_now() -> None:
    table = table_of(agent("a", used="cpu=1", kernel_count=1, kernels_max=9), agent("b"))
    tracker = AgentTracker(table)
    shape = table.of(kernel("k", "cpu=2"))
    before = tracker.agents(np.array([0, 1]))
    table.workspace.take(0, shape.both)
    after = tracker.agents(np.array([0, 1]))
    assert [(one.occupied_slots["cpu"], one.kernel_count) for one in before] == [(1000, 1), (0, 0)]
    assert [(one.occupied_slots["cpu"], one.kernel_count) for one in after] == [(3000, 2), (0, 0)]
    assert after[1] is before[1]


def test_the_tracker_knows_only_its_own_agents() -> None:
    tracker = AgentTracker(table_of(agent("a"), agent("b")))
    assert tracker.index("b") == 1
    with pytest.raises(TrackerCompatibilityError, match="'zoe'"):
        tracker.index("zoe")
