"""Differences of the fleet; `tests/property/test_fleet_changes.py` applies them."""

from __future__ import annotations

from dataclasses import replace

from sokovan.api.fleet.changes import change_view, fleet_difference
from sokovan.api.fleet.columns import FleetReading, fleet_of, seen_by
from sokovan.domain.cluster.agent_health import AgentHealth
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.owners.access import UNOWNED, Ownership
from sokovan.ports.agent_states import AgentState, DeviceFigures
from sokovan.wire.api.fleet import DeviceHolder
from sokovan.wire.api.topology import FleetChangeView
from tests.unit.api.fleet.small_fleets import agent, hold, holds

BEFORE = FleetReading(0, [agent("a1", "g0", "g1"), agent("a2", "g0")])


def change(before: FleetReading, after: FleetReading, scope: Ownership = UNOWNED) -> FleetChangeView:
    """The change between two readings."""
    first = fleet_of(before)
    found = fleet_difference(first, fleet_of(after, first))
    assert found is not None
    return change_view(found, seen_by(scope))


def test_a_change_has_only_the_devices_that_have_changed() -> None:
    after = FleetReading(1000, BEFORE.agents, holds=holds(hold("a1", "g1", "s1")))
    assert change(BEFORE, after) == FleetChangeView(
        as_of=change(BEFORE, after).as_of, device_at=[1], device_used=[1], device_holder=[0], device_fault=[""],
        holders=[DeviceHolder(id="s1", name="job-s1", user="ada", queue="q")],
    )  # fmt: skip
    hidden = change(BEFORE, after, Ownership(user="bob"))
    assert (hidden.device_at, hidden.device_used, hidden.device_holder, hidden.holders) == ([1], [1], [-2], [])
    freed = change(after, BEFORE)
    assert (freed.device_at, freed.device_used, freed.device_holder, freed.holders) == ([1], [0], [-1], [])


def test_places_are_those_after_agents_have_gone_and_joined() -> None:
    found = change(BEFORE, FleetReading(0, [agent("a0", "g0"), agent("a2", "g0", kernels=1)]))
    assert (found.gone, found.joined, found.joined_devices, found.device) == (["a1"], ["a0"], [1], ["g0"])
    assert (found.agent_at, found.kernels, found.device_at) == ([0, 1], [0, 1], [0])


def test_an_agent_with_other_devices_goes_and_joins() -> None:
    found = change(BEFORE, FleetReading(0, [agent("a1", "g0"), BEFORE.agents[1]]))
    assert (found.gone, found.joined, found.device, found.agent_at, found.device_at) == (
        ["a1"],
        ["a1"],
        ["g0"],
        [0],
        [0],
    )
    faulty = change(BEFORE, FleetReading(0, [agent("a1", "g0", "g1", fault="hot"), BEFORE.agents[1]]))
    assert (faulty.gone, faulty.device_at, faulty.device_fault) == ([], [0, 1], ["hot", "hot"])


def test_each_value_of_an_agent_counts() -> None:
    draining = replace(BEFORE.agents[0], info=replace(BEFORE.agents[0].info, status=AgentStatus.DRAINING))
    ill = replace(BEFORE.agents[0], info=replace(BEFORE.agents[0].info, health=AgentHealth(failing_ms=1)))
    for after, kernels, connected, status in (
        (replace(BEFORE, is_connected=lambda agent_id: agent_id != "a1"), [0], [False], ["alive"]),
        (replace(BEFORE, agents=[agent("a1", "g0", "g1", kernels=3), BEFORE.agents[1]]), [3], [True], ["alive"]),
        (replace(BEFORE, agents=[draining, BEFORE.agents[1]]), [0], [True], ["draining"]),
    ):
        found = change(BEFORE, after)
        assert (found.agent_at, found.kernels, found.connected, found.status) == ([0], kernels, connected, status)
        assert (found.device_at, found.figure_at, found.failing) == ([], [], {})
    failing = change(BEFORE, replace(BEFORE, agents=[ill, BEFORE.agents[1]]))
    assert (failing.agent_at, failing.failing) == ([], {"a1": "its probe failed"})
    assert change(replace(BEFORE, agents=[ill, BEFORE.agents[1]]), BEFORE).failing == {"a1": ""}


def test_places_of_hypernodes_move_also_of_agents_that_are_as_before() -> None:
    before = replace(BEFORE, parents={"a2": "r2"})
    found = change(before, replace(BEFORE, parents={"a1": "r1", "a2": "r2"}))
    assert (found.hypernodes, found.hypernode_parent) == (["r1", "r2"], [-1, -1])
    assert (found.agent_at, found.hypernode) == ([0, 1], [0, 1])
    above = change(before, replace(before, parents={"a2": "r2", "r2": "z1"}))
    assert (above.hypernodes, above.hypernode_parent, above.agent_at) == (["r2", "z1"], [1, -1], [])


def test_figures_of_devices_that_have_changed_are_at_their_places() -> None:
    def measured(*uses: int) -> FleetReading:
        figures = {f"g{at}": DeviceFigures(use_percent=use) for at, use in enumerate(uses)}
        return replace(BEFORE, states={AgentId("a1"): AgentState(AgentId("a1"), 1, 1, devices=figures)})

    first = change(BEFORE, measured(5, 6))
    assert (first.measured, first.figure_at, first.device_use, first.device_memory) == (True, [0, 1], [5, 6], [-1, -1])
    assert (change(measured(5, 6), measured(5, 7)).figure_at, first.device_at) == ([1], [])
    last = change(measured(5, 6), BEFORE)
    assert (last.measured, last.figure_at) == (False, [])


def test_time_alone_is_no_difference() -> None:
    first = fleet_of(BEFORE)
    assert fleet_difference(first, fleet_of(FleetReading(5, BEFORE.agents), first)) is None
    assert fleet_difference(first, fleet_of(FleetReading(5, BEFORE.agents))) is None


def test_the_size_of_a_difference_counts_its_values() -> None:
    first = fleet_of(FleetReading(0, []))
    found = fleet_difference(first, fleet_of(BEFORE))
    assert found is not None
    assert found.size == 2 + 3 + 3, "two agents, three devices that joined, and the values of these"
