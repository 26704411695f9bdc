"""The public test tables of Volcano, restated as scenarios: what they decide, this core decides."""

from __future__ import annotations

import pytest

from sokovan.scheduling.profile import EVICTING_ACTIONS
from sokovan.simulator.expectations import differences
from sokovan.simulator.scenario import Scenario
from sokovan.simulator.simulation import run
from tests.scenario.scenario_files import VOLCANO, scenarios_in

ALL = [scenario for path in VOLCANO for scenario in scenarios_in(path)]


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_a_scenario_of_volcano_holds(scenario: Scenario) -> None:
    assert differences(run(scenario)) == []


def test_the_folder_holds_a_hundred_scenarios_of_which_52_evict() -> None:
    evicting = [scenario for scenario in ALL if set(EVICTING_ACTIONS) & set(scenario.profile.actions)]
    assert (len(ALL), len(evicting)) == (100, 52)
