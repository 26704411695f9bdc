"""Scenario files and snapshot files, run through the core."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.entrypoints.files import UnreadableFile
from sokovan.entrypoints.simulate import read_all, replayed, save_snapshots, simulated
from sokovan.scheduling.codec import InvalidSnapshot, snapshot_from_json, snapshot_to_json
from sokovan.simulator.documents import InvalidScenario
from sokovan.simulator.scenario import read_scenarios
from sokovan.simulator.simulation import initial_state
from tests.unit.scheduling.little_cluster import agent, session, snapshot, where

GOOD = "scenario: good\nagents: {n1: {slots: {cpu: 1}}}\nsessions: {s: {kernels: {k: {slots: {cpu: 1}}}}}\n"


def written(folder: Path, name: str, text: str) -> str:
    """The path of a file with this text."""
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_every_scenario_of_every_file_is_read_in_order(tmp_path: Path) -> None:
    first = written(tmp_path, "1.yaml", "scenario: a\n---\nscenario: b\n")
    second = written(tmp_path, "2.yaml", "scenario: a\n")
    assert [(one.name, one.file, one.line) for one in read_all([first, second])] == [
        ("a", first, 1),
        ("b", first, 3),
        ("a", second, 1),
    ]


def test_one_file_that_cannot_be_read_stops_all_before_anything_runs(tmp_path: Path) -> None:
    good, bad = written(tmp_path, "good.yaml", GOOD), written(tmp_path, "bad.yaml", "colour: red\n")
    with pytest.raises(InvalidScenario, match=r"bad\.yaml:1"):
        read_all([good, bad])
    with pytest.raises(UnreadableFile):
        read_all([good, str(tmp_path / "missing.yaml")])


def test_each_scenario_has_its_own_outcome(tmp_path: Path) -> None:
    text = f"{GOOD}expect: {{placed: {{k: n1}}}}\n---\n{GOOD.replace('good', 'bad')}expect: {{placed: {{}}}}\n"
    good, bad = simulated(read_all([written(tmp_path, "f.yaml", text)]))
    assert (good.scenario.name, good.differences) == ("good", [])
    assert (bad.scenario.name, bad.differences) == ("bad", ["placed: k is on n1, expected no placement"])
    assert len(bad.state.placements) == 1


def test_a_profile_that_names_a_plugin_which_is_not_there_is_refused_with_its_place(tmp_path: Path) -> None:
    text = f"{GOOD}---\nscenario: odd\nprofile: {{selector: nope}}\n"
    with pytest.raises(
        InvalidScenario, match=r"scenario 'odd': profile.selector: there is no selector 'nope'; known are conc"
    ):
        read_all([written(tmp_path, "f.yaml", text)])


def test_a_scenario_that_cannot_be_run_keeps_no_other_from_it() -> None:
    # Files with an unknown selector are refused when they are read; a plugin may be gone after that.
    text = f"scenario: odd\nprofile: {{selector: nope}}\n---\n{GOOD}"
    odd, good = simulated(list(read_scenarios(text, "f.yaml")))
    [difference] = odd.differences
    assert "not run: there is no selector 'nope'" in difference
    assert difference.endswith("[unknown-plugin]")
    assert odd.state.placements == []
    assert (good.differences, len(good.state.placements)) == ([], 1)


def test_snapshots_are_saved_one_file_each_under_readable_names(tmp_path: Path) -> None:
    scenarios = read_all([written(tmp_path, "f.yaml", f"{GOOD}---\nscenario: Ünfit / NAMES!\n---\nscenario: '...'\n")])
    paths = save_snapshots(scenarios, str(tmp_path / "deep" / "folder"))
    assert [path.name for path in paths] == ["001-good.json", "002-nfit-names.json", "003-scenario.json"]
    for path, scenario in zip(paths, scenarios, strict=True):
        assert snapshot_from_json(path.read_text(encoding="utf-8")) == initial_state(scenario).snapshot()


def test_a_long_name_gives_a_short_file_name(tmp_path: Path) -> None:
    scenarios = read_all([written(tmp_path, "f.yaml", f"scenario: {'long ' * 60}\n")])
    [path] = save_snapshots(scenarios, str(tmp_path))
    assert len(path.name) < 80


@pytest.mark.parametrize(
    "policy", ["{}", "{sequencer: drf, selector: dispersed, queue_policy: capacity, hierarchy: true}"]
)
def test_a_saved_snapshot_is_replayed_to_the_same_plan(tmp_path: Path, policy: str) -> None:
    text = GOOD.replace("agents: {", "agents: {n0: {slots: {cpu: 9}}, ")
    scenarios = read_all([written(tmp_path, "f.yaml", f"{text}profile: {policy}\n")])
    [path] = save_snapshots(scenarios, str(tmp_path))
    [outcome] = simulated(scenarios)
    assert replayed(str(path)) == outcome.state.plan


@pytest.mark.parametrize(("selector", "went"), [("concentrated", "small"), ("dispersed", "large")])
def test_a_snapshot_is_replayed_by_the_policy_that_its_scaling_group_names(
    tmp_path: Path, selector: str, went: str
) -> None:
    group = ScalingGroup(ScalingGroupName("g"), scheduler="fifo", scheduler_opts={"agent_selector": selector})
    seen = snapshot([agent("large", "cpu=8"), agent("small", "cpu=2")], [session("s")], scaling_group=group)
    assert where(replayed(written(tmp_path, "s.json", snapshot_to_json(seen)))) == {"s.0": went}


def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSnapshot):
        replayed(written(tmp_path, "s.json", "{}"))
