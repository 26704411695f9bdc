"""The public test tables of Volcano, restated as scenarios: what they decide, this core decides."""

from __future__ import annotations

import pytest

from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import ACTIONS, UnsupportedAction
from sokovan.simulator.expectations import differences
from sokovan.simulator.scenario import Scenario
from sokovan.simulator.simulation import initial_state, run
from tests.scenario.scenario_files import VOLCANO, scenarios_in

EVICTING = {"preempt", "reclaim"}

# These need preempt or reclaim; they run once the core evicts.
WAITING_FOR_EVICTION = {
    "capacity.yaml": (
        "C01a C01b C03 C04a C04b C05a C05b C05c C06 C07a C07b C07c C08 C09 C10a C10b C10c C11a C12b C12c"
    ),
    "gang_evict.yaml": "G01a G03 G04c G07a G07b G08 G09a G09b",
    "other.yaml": "U06b U06c U06d U06e",
    "preempt.yaml": "P01 P02 P03 P05 P06 P07 P08a P08b P10 P11 P12 P14",
    "proportion.yaml": "Q03",
    "reclaim.yaml": "R01 R02 R04b R04c R05 R06 R07",
}


def number(scenario: Scenario) -> str:
    return scenario.name.split()[0]


ALL = [scenario for path in VOLCANO for scenario in scenarios_in(path)]
WAITING = [scenario for scenario in ALL if number(scenario) in WAITING_FOR_EVICTION.get(scenario.file, "").split()]
RUNNING = [scenario for scenario in ALL if scenario not in WAITING]


@pytest.mark.parametrize("scenario", RUNNING, ids=lambda scenario: scenario.name)
def test_a_scenario_of_volcano_holds(scenario: Scenario) -> None:
    assert differences(run(scenario)) == []


def test_the_folder_holds_a_hundred_scenarios_of_which_52_wait_for_eviction() -> None:
    assert (len(ALL), len(RUNNING), len(WAITING)) == (100, 48, 52)


def test_exactly_those_wait_that_name_an_action_which_evicts() -> None:
    evicting = [scenario.name for scenario in ALL if EVICTING & set(scenario.profile.actions)]
    assert [scenario.name for scenario in WAITING] == evicting


def test_nothing_waits_for_eviction_any_more_once_the_core_evicts() -> None:
    assert not EVICTING & set(ACTIONS), "run the scenarios that wait for eviction"


@pytest.mark.parametrize("scenario", WAITING, ids=lambda scenario: scenario.name)
def test_a_scenario_that_waits_for_eviction_is_refused_rather_than_answered_in_part(scenario: Scenario) -> None:
    with pytest.raises(UnsupportedAction, match="is not implemented yet"):
        schedule(initial_state(scenario).snapshot(), scenario.profile)
