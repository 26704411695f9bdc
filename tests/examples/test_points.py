"""Every extension point has an example, a scenario that shows it at work, and a place in the how-to.

A point that somebody adds without these fails here.
"""

from __future__ import annotations

import pytest

from sokovan.entrypoints.plugins import GROUPS
from sokovan.scheduling.extensions import POINTS
from sokovan.scheduling.registry import PluginRegistry
from sokovan.simulator.expectations import differences
from sokovan.simulator.scenario import Scenario
from sokovan.simulator.simulation import run
from tests.examples.package import HOWTO, PACKAGE, declared, overriding, scenarios, subject, without

SCENARIOS = scenarios()
KINDS = {"validator", "sequencer", "selector"}
OF_POINTS = [scenario for scenario in SCENARIOS if subject(scenario) in POINTS]


def _name(scenario: Scenario) -> str:
    return scenario.name


@pytest.mark.parametrize("scenario", SCENARIOS, ids=_name)
def test_the_scenarios_of_the_package_hold(scenario: Scenario, registry: PluginRegistry) -> None:
    assert differences(run(scenario, registry)) == []


@pytest.mark.parametrize("scenario", OF_POINTS, ids=_name)
def test_the_effect_is_gone_when_the_point_is_not_overridden(scenario: Scenario, registry: PluginRegistry) -> None:
    assert differences(run(scenario, without(registry, subject(scenario)))) != []


@pytest.mark.parametrize("point", POINTS)
def test_every_point_has_an_example_that_overrides_it(point: str, registry: PluginRegistry) -> None:
    assert overriding(registry, point) != []


@pytest.mark.parametrize("point", POINTS)
def test_every_point_has_a_scenario_that_uses_its_example(point: str, registry: PluginRegistry) -> None:
    used = {name for scenario in OF_POINTS if subject(scenario) == point for name in scenario.profile.plugins}

    assert used & set(overriding(registry, point))


@pytest.mark.parametrize("point", POINTS)
def test_every_point_is_named_in_the_how_to(point: str) -> None:
    assert f"`{point}`" in HOWTO.read_text(encoding="utf-8")


def test_every_scenario_says_which_point_or_kind_of_plugin_it_shows() -> None:
    assert [scenario.name for scenario in SCENARIOS if subject(scenario) not in {*POINTS, *KINDS}] == []


def test_every_plugin_of_the_package_is_named_in_its_readme_and_used_by_a_scenario() -> None:
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    profiles = [scenario.profile for scenario in SCENARIOS]
    used = {name for p in profiles for name in (p.selector, p.sequencer, *p.validators, *p.plugins)}
    entries = declared()

    assert [entry.name for entry in entries if f"`{entry.name}`" not in readme] == []
    # An allocator has no part in a scenario; its tests are in test_allocators.
    assert [entry.name for entry in entries if entry.group in GROUPS and entry.name not in used] == []


def test_a_plugin_is_offered_under_the_name_that_its_class_has(registry: PluginRegistry) -> None:
    shelves = (registry.plugins, registry.selectors, registry.validators, registry.sequencers)
    made = {name: make() for shelf in shelves for name, make in shelf.items()}

    assert [name for name, plugin in made.items() if getattr(plugin, "name", "") != name] == []


def test_each_example_is_short_enough_to_be_read_at_once() -> None:
    sizes = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in PACKAGE.rglob("*.py")}

    assert {name: size for name, size in sizes.items() if size > 100} == {}
