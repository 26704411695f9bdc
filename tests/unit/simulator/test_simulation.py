"""Runs scenarios: each cycle starts from the result of the one before."""

from __future__ import annotations

import textwrap

import pytest

from sokovan.domain.owners.policy import Scope
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.registry import UnknownPlugin
from sokovan.scheduling.snapshot import OwnerUsage
from sokovan.simulator.scenario import read_scenarios
from sokovan.simulator.simulation import SimulationState, initial_state, run
from tests.unit.scheduling.little_cluster import plugin_with, registry_with


def state(text: str, *, cycles: int | None = None) -> SimulationState:
    """The state after some cycles, by default those of the scenario."""
    [scenario] = read_scenarios(textwrap.dedent(text), "f.yaml")
    if cycles is None:
        return run(scenario)
    started = initial_state(scenario)
    for _ in range(cycles):
        started.step()
    return started


def placed(after: SimulationState) -> dict[str, str]:
    """Agent of every placed kernel, over all cycles."""
    return {str(placement.kernel_id): str(placement.agent_id) for placement in after.placements}


ONE = """
    scenario: one agent, three sessions
    agents: {n1: {slots: {cpu: 4}, max_kernels: 9}}
    sessions:
      old: {user: alice, kernels: {k1: {slots: {cpu: 1}, at: n1}, k2: {slots: {cpu: 1}, at: n1, releasing: true}}}
      new: {user: bob, kernels: {k3: {slots: {cpu: 2}}}}
"""


def test_before_the_first_cycle_agents_hold_running_and_releasing_kernels() -> None:
    [agent] = state(ONE, cycles=0).snapshot().agents
    assert (agent.occupied_slots, agent.kernel_count) == (parse_slots("cpu=2"), 2)
    assert (agent.releasing_slots, agent.releasing_count) == (parse_slots("cpu=1"), 1)


def test_usage_of_running_sessions_is_counted_in_every_scope() -> None:
    usage = state(ONE, cycles=0).snapshot().usage
    both = OwnerUsage(parse_slots("cpu=2"), 1)
    assert usage == {
        Scope.KEYPAIR: {"alice": both},
        Scope.USER: {"alice": both},
        Scope.GROUP: {"default": both},
        Scope.DOMAIN: {"default": both},
    }


def test_after_a_cycle_placed_kernels_run_and_releasing_ones_are_gone() -> None:
    after = state(ONE, cycles=1)
    assert placed(after) == {"k3": "n1"}
    [agent] = after.snapshot().agents
    assert (agent.occupied_slots, agent.kernel_count, agent.releasing_count) == (parse_slots("cpu=3"), 2, 0)
    assert [[kernel.kernel_id for kernel in session.kernels] for session in after.sessions] == [["k1"], ["k3"]]
    assert after.snapshot().usage[Scope.USER]["bob"] == OwnerUsage(parse_slots("cpu=2"), 1)


def test_a_second_cycle_places_nothing_twice() -> None:
    after = state(ONE, cycles=3)
    assert len(after.placements) == 1
    assert after.plan.placements == ()


RESERVED = """
    scenario: two cycles
    cycles: 2
    agents: {n1: {slots: {cpu: 4}}, spare: {slots: {cpu: 9}, arch: aarch64}}
    sessions:
      old: {kernels: {k1: {slots: {cpu: 4}, at: n1, releasing: true}}}
      wide: {kernels: {k2: {slots: {cpu: 4}}}}
"""


def test_a_reservation_of_one_cycle_is_seen_by_the_next_and_then_redeemed() -> None:
    [held] = state(RESERVED, cycles=1).snapshot().reservations
    assert (held.session_id, held.kernels) == ("wide", (("k2", "n1"),))
    after = state(RESERVED)
    assert placed(after) == {"k2": "n1"}
    assert after.carried.reservations == ()


ROTATION = """
    scenario: rotation
    profile: {selector: roundrobin}
    cycles: CYCLES
    cursor: n2
    agents: {n1: {slots: {cpu: 2}}, n2: {slots: {cpu: 2}}, n3: {slots: {cpu: 2}}}
    sessions:
      first: {kernels: {k1: {slots: {cpu: 1}}}}
      second: {kernels: {k2: {slots: {cpu: 1}}}}
"""


def test_the_cursor_of_a_scenario_begins_the_rotation_and_moves_on() -> None:
    after = state(ROTATION.replace("CYCLES", "1"))
    assert placed(after) == {"k1": "n3", "k2": "n1"}
    assert after.carried.cursors == {"default": "n1"}


def test_the_hypernode_of_a_placed_session_is_kept() -> None:
    after = state("""
        scenario: close
        agents: {n1: {slots: {cpu: 1}}, n2: {slots: {cpu: 2}}}
        hypernodes: {s0: {tier: 1, members: [n1]}, s1: {tier: 1, members: [n2]}}
        sessions:
          gang: {topology: {highest_tier: 1}, kernels: {k1: {slots: {cpu: 1}}, k2: {slots: {cpu: 1}}}}
    """)
    assert placed(after) == {"k1": "n2", "k2": "n2"}
    assert after.sessions[0].hypernode == after.plan.domains[after.sessions[0].session_id]


def test_a_world_runs_with_the_plugins_that_it_is_given() -> None:
    text = """
        scenario: with a plugin
        profile: {plugins: [tester]}
        agents: {n1: {slots: {cpu: 2}}}
        sessions: {s: {kernels: {k1: {slots: {cpu: 1}}}}}
    """
    [scenario] = read_scenarios(textwrap.dedent(text), "f.yaml")
    with pytest.raises(UnknownPlugin, match="there is no plugin 'tester'"):
        run(scenario)
    assert run(scenario, registry_with(plugin_with(session_valid=lambda _one: "no"))).placements == []


def test_a_scenario_itself_is_not_changed_by_its_runs() -> None:
    [scenario] = read_scenarios(textwrap.dedent(ONE), "f.yaml")
    assert run(scenario).placements == run(scenario).placements
    assert scenario.sessions == initial_state(scenario).sessions
