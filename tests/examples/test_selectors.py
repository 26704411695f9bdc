"""The two example selectors, asked by real cycles over agents that have images."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.slot_notation import parse_slots
from sokovan.domain.slots import NO_SLOTS
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import PluginRegistry
from sokovan.scheduling.selectors.base import AgentSelectionCriteria, ResourceRequirements
from sokovan.scheduling.selectors.exceptions import NoAvailableAgentError
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code

IMAGE = "python:3.12"


def _agent(name: str, *, used: str = "", releasing: bool = False, images: tuple[str, ...] = ()) -> AgentInfo:
    occupied = parse_slots(used) if used else NO_SLOTS
    return AgentInfo(
        AgentId(name),
        parse_slots("cpu=4"),
        occupied_slots=occupied,
        releasing_slots=occupied if releasing else NO_SLOTS,
        kernel_count=int(bool(used)),
        releasing_count=int(bool(used) and releasing),
        cached_images=frozenset(images),
    )


def _session(name: str, *, kernels: int = 1, image: str = IMAGE) -> SessionWorkload:
    each = [KernelWorkload(KernelId(f"{name}-{n}"), parse_slots("cpu=1"), image=image) for n in range(kernels)]
    return SessionWorkload(SessionId(name), tuple(each))


def _placed(plan: SchedulingPlan) -> list[str]:
    return [str(placement.agent_id) for placement in plan.placements]


@pytest.mark.parametrize("selector", ["image-affinity", "weighted"])
def test_a_kernel_goes_where_its_image_is(selector: str, registry: PluginRegistry) -> None:
    agents = (_agent("a1"), _agent("a2", images=(IMAGE,)), _agent("a3", images=("other:1",)))
    plan = schedule(SystemSnapshot(agents, (_session("s"),)), SchedulingProfile(selector=selector), registry)

    assert _placed(plan) == ["a2"]


def test_of_agents_that_have_the_image_the_idlest_is_taken(registry: PluginRegistry) -> None:
    agents = (_agent("a1"), _agent("a2", used="cpu=2", images=(IMAGE,)), _agent("a3", images=(IMAGE,)))
    plan = schedule(SystemSnapshot(agents, (_session("s"),)), SchedulingProfile(selector="image-affinity"), registry)

    assert _placed(plan) == ["a3"]


def test_each_placement_is_seen_by_the_next_choice(registry: PluginRegistry) -> None:
    agents = (_agent("a1", images=(IMAGE,)), _agent("a2", images=(IMAGE,)))
    snapshot = SystemSnapshot(agents, (_session("s", kernels=4),))
    plan = schedule(snapshot, SchedulingProfile(selector="image-affinity"), registry)

    assert _placed(plan) == ["a1", "a2", "a1", "a2"]


def test_image_affinity_chooses_among_agents_whose_room_is_being_released(registry: PluginRegistry) -> None:
    agents = (
        _agent("a1", used="cpu=4", releasing=True),
        _agent("a2", used="cpu=4", releasing=True, images=(IMAGE,)),
    )
    plan = schedule(SystemSnapshot(agents, (_session("s"),)), SchedulingProfile(selector="image-affinity"), registry)

    assert plan.trace[SessionId("s")].code is Code.RESERVED
    assert [reservation.agents for reservation in plan.reservations] == [("a2",)]


def test_the_weights_decide_what_counts_more(registry: PluginRegistry) -> None:
    busy, warm = _agent("a1", used="cpu=2"), _agent("a2", images=(IMAGE,))
    snapshot = SystemSnapshot((busy, warm), (_session("s"),))
    weighted = type(registry.selector("weighted"))
    packing = type("Packing", (weighted,), {"name": "packing", "affinity_weight": 1})
    both = PluginRegistry(registry.validators, registry.sequencers, {**registry.selectors, "packing": packing})

    assert _placed(schedule(snapshot, SchedulingProfile(selector="weighted"), both)) == ["a2"]
    assert _placed(schedule(snapshot, SchedulingProfile(selector="packing"), both)) == ["a1"]


def test_the_weighted_selector_keeps_near_the_agent_that_was_chosen_before(registry: PluginRegistry) -> None:
    agents = tuple(_agent(name) for name in ("a1", "a2", "a3", "a4"))
    racks = (HyperNode("r1", 1, (AgentId("a1"), AgentId("a3"))), HyperNode("r2", 1, (AgentId("a2"), AgentId("a4"))))
    snapshot = SystemSnapshot(agents, (_session("s"),), hypernodes=racks, cursors={"default": AgentId("a4")})
    plan = schedule(snapshot, SchedulingProfile(selector="weighted"), registry)

    assert _placed(plan) == ["a4"]


@pytest.mark.parametrize("name", ["image-affinity", "weighted"])
def test_the_plain_form_can_be_asked_without_an_engine(name: str, registry: PluginRegistry) -> None:
    selector = registry.selector(name)
    asked = ResourceRequirements(parse_slots("cpu=1"), image=IMAGE)
    agents = [_agent("a1"), _agent("a2", images=(IMAGE,))]

    assert selector.select(asked, agents, AgentSelectionCriteria()).agent_id == "a2"
    with pytest.raises(NoAvailableAgentError):
        selector.select(asked, [], AgentSelectionCriteria())


def test_the_plain_form_of_weighted_stays_where_it_was(registry: PluginRegistry) -> None:
    selector = registry.selector("weighted")
    agents = [_agent("a1"), _agent("a2")]
    criteria = AgentSelectionCriteria(last_agent=AgentId("a2"))

    assert selector.select(ResourceRequirements(parse_slots("cpu=1")), agents, criteria).agent_id == "a2"
