"""Runs scenario files and snapshot files through the scheduling core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sokovan.domain.errors import InvalidInput, SokovanError
from sokovan.entrypoints.files import read_text, write_text
from sokovan.entrypoints.plugins import installed_plugins
from sokovan.scheduling.codec import InvalidSnapshot, snapshot_from_json, snapshot_to_json
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import profile_of
from sokovan.scheduling.registry import PluginRegistry
from sokovan.simulator.documents import ScenarioLocation
from sokovan.simulator.expectations import differences
from sokovan.simulator.scenario import Scenario, read_scenarios
from sokovan.simulator.simulation import SimulationState, initial_state, run


@dataclass(frozen=True)
class SimulationOutcome:
    """The result of one scenario, and its differences from the expectations."""

    scenario: Scenario
    state: SimulationState
    differences: list[str]


def read_all(files: Sequence[str]) -> list[Scenario]:
    """Read all scenarios of these files.

    Raises InvalidScenario, UnreadableFile.
    """
    registry = installed_plugins()
    scenarios = [scenario for file in files for scenario in read_scenarios(read_text(file), file)]
    for scenario in scenarios:
        _require_plugins(scenario, registry)
    return scenarios


def _require_plugins(scenario: Scenario, registry: PluginRegistry) -> None:
    """Raise for an unknown plugin of a profile, with its position in the file."""
    profile = scenario.profile
    named: list[tuple[str, Callable[[str], object], tuple[str, ...]]] = [
        ("sequencer", registry.sequencer, (profile.sequencer,)),
        ("selector", registry.selector, (profile.selector,)),
        ("validators", registry.validator, profile.validators),
        ("plugins", registry.plugin, profile.plugins),
    ]
    for key, find, names in named:
        for name in names:
            try:
                find(name)
            except InvalidInput as error:
                profile_location = ScenarioLocation(scenario.file, scenario.line, scenario.name, "profile")
                location = scenario.profile_locations.get(key, profile_location)
                raise location.error(error.message, hint=error.hint) from error


def simulated(scenarios: Sequence[Scenario]) -> Iterator[SimulationOutcome]:
    """Run each scenario with all installed plugins."""
    registry = installed_plugins()
    for scenario in scenarios:
        try:
            state = run(scenario, registry)
        except SokovanError as error:
            # A scenario that cannot be run (unknown plugin, unimplemented action) must not stop the others.
            yield SimulationOutcome(scenario, initial_state(scenario), [f"not run: {error.message} [{error.code}]"])
        else:
            yield SimulationOutcome(scenario, state, differences(state))


def replayed(file: str) -> SchedulingPlan:
    """The plan for a snapshot file, by the policy of its scaling group."""
    try:
        snapshot = snapshot_from_json(read_text(file))
    except InvalidSnapshot as error:
        raise InvalidSnapshot(key=f"{file}: {error.key}" if error.key else file, problem=error.problem) from error
    try:
        return schedule(snapshot, profile_of(snapshot.scaling_group), installed_plugins())
    except SokovanError as error:
        raise InvalidSnapshot(key=file, problem=error.message) from error


def save_snapshots(scenarios: Sequence[Scenario], folder: str) -> list[Path]:
    """Write the first snapshot of each scenario to a file."""
    target = Path(folder)
    written = []
    for index, scenario in enumerate(scenarios, start=1):
        path = target / f"{index:03}-{_file_name(scenario.name)}.json"
        write_text(path, snapshot_to_json(initial_state(scenario).snapshot(), indent=1) + "\n")
        written.append(path)
    return written


def _file_name(name: str) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name.lower())
    return "-".join(part for part in kept.split("-") if part)[:60] or "scenario"
