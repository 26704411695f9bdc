"""Plugins that a package installs, on a running server: every extension point is reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sokovan.scheduling.extensions import EVICTION_POINTS, POINTS
from tests.acceptance.embedded import until
from tests.acceptance.endings import ended_well
from tests.acceptance.fast_timings import FastTimings
from tests.acceptance.plugin_package import ServerWithPackages, install_package

PLUGINS = '''
from pathlib import Path

from sokovan.scheduling.extensions import POINTS, SchedulingPlugin
from sokovan.scheduling.validators.base import SchedulingValidationError, ValidatorRule

CALLED = Path(__file__).with_name("called")


def recording(point):
    own = getattr(SchedulingPlugin, point)

    def called(self, *arguments):
        with CALLED.open("a", encoding="utf-8") as file:
            file.write(point + "\\n")
        # Scores are reduced only if there are some.
        return 1 if point == "agent_order_map" else own(self, *arguments)

    return called


Recorder = type("Recorder", (SchedulingPlugin,), {"name": "recorder", **{point: recording(point) for point in POINTS}})


class LastRack(SchedulingPlugin):
    """Of the racks that hold a session, the last by name."""

    name = "last-rack"

    def trial_order(self, session, trials):
        names = sorted(trial.domain for trial in trials)
        return [names.index(trial.domain) for trial in trials]


class NoEvictions(SchedulingPlugin):
    """Nothing is evicted, whatever the actions."""

    name = "no-evictions"

    def evictable(self, taker, action, victims):
        return []


class NoGiants(ValidatorRule):
    """More than four kernels never pass, more than two wait."""

    name = "no-giants"

    def validate(self, session, context):
        if len(session.kernels) > 4:
            raise SchedulingValidationError("more than four kernels never pass", final=True)
        if len(session.kernels) > 2:
            raise SchedulingValidationError("more than two kernels wait for the night")
'''
RACK = {"cuda.device": 8}
PARTS = {
    "groups": [
        {"name": "all", "size": 2, "labels": {"part": "a"}},
        {"name": "more", "size": 2, "labels": {"part": "b"}},
    ],
    "partitions": [{"name": "parts", "by": "part", "size": 2, "min_groups": 2, "topology": "hard:rack"}],
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of this module's plugins."""
    folder = tmp_path_factory.mktemp("packages")
    offered = {
        "sokovan.plugins": {"recorder": "Recorder", "last-rack": "LastRack", "no-evictions": "NoEvictions"},
        "sokovan.validators": {"no-giants": "NoGiants"},
    }
    install_package(folder, "recorded_plugins", PLUGINS, offered)
    return folder


@pytest.fixture(scope="module")
def fleet(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerWithPackages]:
    """`sokovan up --fake 16x8` with the package: racks r00 and r01 of eight agents with eight devices."""
    folder = tmp_path_factory.mktemp("plugins")
    server = ServerWithPackages(folder, packages, timings=FastTimings(holds=str(folder / "holds")))
    with ended_well(server):
        server.start("--fake", "16x8", "--no-agent")
        yield server


def choose(fleet: ServerWithPackages, **options: str) -> None:
    """Set scheduler options of the default scaling group by the command line."""
    texts = [text for name, value in options.items() for text in ("--option", f"{name}={value}")]
    done = fleet.cli("scaling-group", "set", "default", *texts)
    assert done.returncode == 0, done.stderr


def racks(session: dict[str, Any]) -> set[str]:
    return {kernel["agent"][:3] for kernel in session["kernels"] if kernel["agent"]}


def filled(fleet: ServerWithPackages, kernels: int) -> list[str]:
    """One session in each rack, of so many kernels with all devices of an agent."""
    names = [fleet.submit("sleep", "600", size=kernels, resources=RACK, topology="hard:rack")["id"] for _ in range(2)]
    assert set.union(*(racks(fleet.reaches(name, "running")) for name in names)) == {"r00", "r01"}
    return names


def test_every_extension_point_is_called_in_a_running_server(fleet: ServerWithPackages, packages: Path) -> None:
    choose(fleet, plugins='["recorder"]')
    close = fleet.submit("sleep", "600", size=2, resources=RACK, topology="hard:rack")["id"]
    parts = fleet.submit("sleep", "600", resources=RACK, **PARTS)["id"]
    for name in (close, parts):
        fleet.reaches(name, "running")
        fleet.end(name, forced=True)
        fleet.settles(name)
    first, second = filled(fleet, 8)
    with fleet.held("terminate"):
        fleet.end(first)
        # Both racks are full, one of them is being released: what waits there holds reservations.
        waiting = fleet.submit("sleep", "600", resources=RACK, **PARTS)["id"]
        until(lambda: fleet.session(waiting)["reason"] == "RESERVED", what="the session holds a reservation")
    fleet.reaches(waiting, "running")
    for name in (second, waiting):
        fleet.end(name, forced=True)
    choose(fleet, plugins="null")
    called = set((packages / "called").read_text(encoding="utf-8").split())
    assert sorted(set(POINTS) - called - set(EVICTION_POINTS)) == []


def test_every_extension_point_of_evictions_is_called_and_a_plugin_keeps_victims(
    fleet: ServerWithPackages, packages: Path
) -> None:
    for words in (("default", "--min-runtime", "0s"), ("other",)):
        done = fleet.cli("queue", "set", *words)
        assert done.returncode == 0, done.stderr
    choose(fleet, plugins='["no-evictions"]', actions='["enqueue","allocate","preempt","reclaim","backfill"]')
    running = filled(fleet, 8)
    urgent = fleet.submit("sleep", "600", priority=5, resources=RACK)["id"]
    until(lambda: "16 kept by a plugin" in fleet.cli("why", urgent).stdout, what="why counts what plugins keep")
    choose(fleet, plugins='["recorder"]')
    fleet.reaches(urgent, "running")
    # Seven of the agents of the evicted gang are free: a gang of eight of another queue takes one more.
    other = fleet.submit("sleep", "600", size=8, queue="other", resources=RACK)["id"]
    fleet.reaches(other, "running")
    for name in (*running, urgent, other):
        fleet.end(name, forced=True)
        fleet.settles(name)
    choose(fleet, plugins="null", actions="null")
    called = set((packages / "called").read_text(encoding="utf-8").split())
    assert sorted(set(EVICTION_POINTS) - called) == []


def test_the_order_of_trials_decides_between_racks(fleet: ServerWithPackages) -> None:
    for plugins, rack in (("null", "r00"), ('["last-rack"]', "r01")):
        choose(fleet, plugins=plugins)
        session = fleet.submit("sleep", "600", size=2, resources=RACK, topology="hard:rack")["id"]
        shown = fleet.reaches(session, "running")
        assert (shown["hypernode"], racks(shown)) == (rack, {rack})
        assert rack in fleet.cli("session", "show", session).stdout
        fleet.end(session, forced=True)
        fleet.settles(session)
    choose(fleet, plugins="null")


def test_a_session_starts_now_in_a_higher_tier_or_waits_for_a_lower_one_by_option(fleet: ServerWithPackages) -> None:
    # Two agents of each rack are free: a session of four fits only both racks together.
    first, second = filled(fleet, 6)
    choose(fleet, prefer_lower_tier="true")
    with fleet.held("terminate"):
        fleet.end(first)
        session = fleet.submit("sleep", "600", size=4, resources=RACK, topology="hard:2")["id"]
        until(lambda: fleet.session(session)["reason"] == "RESERVED", what="the session waits for one rack")
        # Another session starts, so that a further cycle has considered the first.
        small = fleet.submit("sleep", "600", resources={"cpu": 1})["id"]
        fleet.reaches(small, "running")
        assert racks(fleet.session(session)) == set()
        choose(fleet, prefer_lower_tier="false")
        until(lambda: racks(fleet.session(session)) == {"r00", "r01"}, what="the session starts in both racks")
    for name in (second, session, small):
        fleet.end(name, forced=True)
    choose(fleet, prefer_lower_tier="null")


def test_a_validator_that_refuses_for_good_cancels_and_another_refusal_waits(fleet: ServerWithPackages) -> None:
    choose(fleet, validators='["no-giants"]')
    giant = fleet.submit("true", size=5, resources=RACK)["id"]
    cancelled = fleet.reaches(giant, "cancelled")
    assert "more than four kernels never pass" in fleet.cli("session", "history", giant).stdout, cancelled
    early = fleet.submit("true", size=3, resources=RACK)["id"]
    until(lambda: "wait for the night" in fleet.cli("why", early).stdout, what="why gives the reason")
    assert fleet.session(early)["status"] == "pending"
    choose(fleet, validators="null")
    assert fleet.settles(early)["result"] == "success"
