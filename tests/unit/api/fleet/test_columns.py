"""Agents and devices as columns."""

from __future__ import annotations

from sokovan.api.fleet.columns import FleetReading, fleet_of, fleet_view, holder_column, seen_by
from sokovan.domain.ids import AgentId
from sokovan.domain.owners.access import UNOWNED, Ownership
from sokovan.ports.agent_states import AgentState, DeviceFigures
from tests.unit.api.fleet.small_fleets import agent, hold, holds

A1, A2 = agent("a1", "g0", "g1", kernels=2), agent("a2", "g0")
PARENTS = {"a1": "r1", "r1": "z1"}


def test_holders_are_by_id_and_devices_name_their_places() -> None:
    held = holds(hold("a1", "g0", "s9"), hold("a1", "g1", "s1"), hold("a2", "g0", "s9"))
    view = fleet_view(fleet_of(FleetReading(0, [A1, A2], PARENTS, held)), seen_by(UNOWNED))
    assert [one.id for one in view.holders] == ["s1", "s9"]
    assert (view.device_holder, view.device_used, view.device_agent) == ([1, 0, 1], [1, 1, 1], [0, 0, 1])
    assert (view.hypernodes, view.hypernode_parent, view.hypernode) == (["r1", "z1"], [1, -1], [0, -1])
    assert (view.kernels, view.slots) == ([2, 0], {"cuda.device": 3})


def test_of_several_holders_the_last_one_that_is_seen_is_named() -> None:
    ada, bob = hold("a1", "g0", "s1"), hold("a1", "g0", "s2", "bob")
    column = [(ada, bob), (ada,), ()]
    assert [holder_column(column, seen_by(scope))[0] for scope in (UNOWNED, Ownership(user="ada"))] == [
        [1, 0, -1],
        [0, 0, -1],
    ]
    assert holder_column(column, seen_by(Ownership(user="eve"))) == ([-2, -2, -1], [])
    assert holder_column(column, seen_by(Ownership(domain="south"))) == ([-2, -2, -1], [])


def test_an_agent_that_is_as_before_keeps_its_columns() -> None:
    held = holds(hold("a1", "g0", "s1"))
    states = {AgentId("a1"): AgentState(AgentId("a1"), 1, 1, devices={"g0": DeviceFigures(50)})}
    before = fleet_of(FleetReading(0, [A1, A2], PARENTS, held, states))
    later = {AgentId("a1"): AgentState(AgentId("a1"), 1, 2, devices={"g0": DeviceFigures(50)})}
    same = fleet_of(FleetReading(1, [A1, A2], PARENTS, held, later), before)
    assert all(same.agents[name] is before.agents[name] for name in ("a1", "a2"))
    readings = [
        FleetReading(1, [agent("a1", "g0", "g1", kernels=1), A2], PARENTS, held, states),
        FleetReading(1, [A1, A2], {"a1": "r2"}, held, states),
        FleetReading(1, [A1, A2], PARENTS, holds(), states),
        FleetReading(1, [A1, A2], PARENTS, held, {}),
        FleetReading(1, [A1, A2], PARENTS, held, states, lambda agent_id: agent_id != "a1"),
    ]
    for reading in readings:
        other = fleet_of(reading, before)
        assert [other.agents[name] is before.agents[name] for name in ("a1", "a2")] == [False, True]


def test_figures_are_left_out_if_none_are_measured() -> None:
    unknown = fleet_view(fleet_of(FleetReading(0, [A1])), seen_by(UNOWNED))
    assert (unknown.device_use, unknown.device_memory, unknown.device_temperature) == ([], [], [])
    states = {AgentId("a1"): AgentState(AgentId("a1"), 1, 1, devices={"g1": DeviceFigures(7, 1, 2, 30)})}
    known = fleet_view(fleet_of(FleetReading(0, [A1], states=states)), seen_by(UNOWNED))
    assert (known.device_use, known.device_memory, known.device_temperature) == ([-1, 7], [-1, 50], [-1, 30])
