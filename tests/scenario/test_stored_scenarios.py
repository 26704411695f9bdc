"""Every scenario, through a store: each cycle decides as in the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.ports.allocation import AllocationRefused, IncompleteGang
from sokovan.scheduling.profile import ACTIONS
from sokovan.simulator.simulation import initial_state
from tests.quick import sampled
from tests.scenario.scenario_files import OWN, VOLCANO, scenarios_in
from tests.scenario.stored_scenario import StoredScenario

# Scenarios of one cycle run on: a second cycle sees what the first one left in the store.
CYCLES_MIN = 3

ALL = [scenario for path in (*OWN, *VOLCANO) for scenario in scenarios_in(path)]
RUNNABLE = {scenario.name: scenario for scenario in ALL if set(scenario.profile.actions) <= set(ACTIONS)}


@dataclass(frozen=True)
class Refused:
    """Scenarios whose first state a store refuses, the reason and the error."""

    reason: str
    error: type[Exception]
    names: tuple[str, ...]


T03B = "T03b a running soft session grows into another hypernode when its own is full and the minimum still lacks one"
REFUSED = (
    Refused(
        "fewer kernels run than the session needs: a gang is allocated whole and fails whole",
        IncompleteGang,
        (
            "a partly running gang fills up to its minimum",
            "a partly running gang adds nothing while its minimum is out of reach",
            "a running master counts for the minimum of its group",
            "a gang that is losing a kernel it needs adds none",
            "the domain of a session is the lowest common ancestor of its kernels",
            "S04b the workers of one kernel group share a leaf",
            "S14 free agents go to the kernel group still demanded",
            "S15 a kernel group with several kernels to replace fills up inside its leaf",
            "S16 a kernel group that cannot be made whole gets nothing",
            T03B,
        ),
    ),
    Refused(
        "the session needs more kernels than it has: such a request is not accepted",
        InvalidSpec,
        (
            "a minimum above the number of kernels is never met",
            "a kernel group that has too few kernels is reported",
            "a group that is too small to be whole starts nothing",
        ),
    ),
    Refused(
        "an agent holds more than it has: capacity never falls below what is held",
        AllocationRefused,
        ("an overcommitted agent does not draw work without devices",),
    ),
)
CANNOT_BE_STORED = {name: group.error for group in REFUSED for name in group.names}


@pytest.mark.parametrize("name", sampled((name for name in RUNNABLE if name not in CANNOT_BE_STORED), every=16))
async def test_a_stored_scenario_gives_the_plans_of_the_simulator(name: str) -> None:
    scenario = RUNNABLE[name]
    simulated = initial_state(scenario)
    async with StoredScenario.open(scenario) as stored:
        for _ in range(max(CYCLES_MIN, scenario.cycles)):
            simulated.step()
            assert await stored.cycle() == simulated.plan
            agents = {kernel.kernel_id: kernel.agent for session in simulated.sessions for kernel in session.kernels}
            assert await stored.agents_of_kernels() == agents


@pytest.mark.parametrize("name", sampled(CANNOT_BE_STORED, every=3))
async def test_the_store_refuses_the_first_state_of_a_scenario(name: str) -> None:
    with pytest.raises(CANNOT_BE_STORED[name]):
        async with StoredScenario.open(RUNNABLE[name]):
            pass


def test_names_of_scenarios_are_unique() -> None:
    assert len(ALL) == len({scenario.name for scenario in ALL})
    assert len(CANNOT_BE_STORED) == sum(len(group.names) for group in REFUSED)
