"""Kernel groups on a running server: partitions, minimums, priority, nomination."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.embedded import Embedded
from tests.acceptance.endings import ended_well

HEAD = "apiVersion: sokovan/v1\nkind: Session\n"
# A replica fills a rack of eight fake agents with eight devices each.
REPLICAS = """\
name: replicas
command: [sleep, "600"]
resources: {gpu: 8}
groups:
- {name: first, size: 8, labels: {replica: a}}
- {name: second, size: 8, labels: {replica: b}}
partitions: [{name: replicas, by: replica, size: 8, minGroups: 2, topology: "hard:rack"}]
"""
# Sixteen agents hold the chief and fifteen workers.
ELASTIC = """\
name: elastic
command: [sleep, "600"]
resources: {gpu: 8}
groups: [{name: chief}, {name: worker, size: 20, minimum: 3}]
"""
PREFERENCES = """\
name: preferences
command: [sleep, "600"]
resources: {gpu: 8}
preemption: never
groups:
- {name: low, nominated: r00n3}
- {name: high, priority: 5, nominated: r00n3}
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up --fake 16x8`: racks r00 and r01 of eight agents."""
    server = Embedded(tmp_path_factory.mktemp("fleet"))
    with ended_well(server):
        server.start("--fake", "16x8", "--no-agent")
        yield server


def runs(fleet: Embedded, text: str, name: str, *options: str) -> dict[str, Any]:
    done = fleet.cli("run", "-d", "-f", "-", *options, stdin=HEAD + text)
    assert done.returncode == 0, done.stderr
    return fleet.reaches(name, "running")


def test_each_part_of_a_session_is_close_by_itself(fleet: Embedded) -> None:
    view = runs(fleet, REPLICAS, "replicas")
    racks: dict[str, set[str]] = {}
    for kernel in view["kernels"]:
        racks.setdefault(kernel["labels"]["replica"], set()).add(kernel["agent"][:3])
    assert sorted(map(sorted, racks.values())) == [["r00"], ["r01"]]
    assert sorted(view["group_domains"].values()) == ["r00", "r01"]
    shown = fleet.cli("session", "show", "replicas").stdout
    assert "by replica, parts of 8, at least 2 of them, each hard:rack" in shown
    fleet.end("replicas", forced=True)


def test_a_session_starts_with_the_minimum_of_each_group(fleet: Embedded) -> None:
    view = runs(fleet, ELASTIC, "elastic")
    placed = [kernel["role"] for kernel in view["kernels"] if kernel["agent"] is not None]
    assert "chief" in placed
    assert placed.count("worker") >= 3
    assert "chief=1, worker=3" in fleet.cli("session", "show", "elastic").stdout
    fleet.end("elastic", forced=True)


def test_a_kernel_of_higher_priority_gets_the_nominated_agent(fleet: Embedded) -> None:
    view = runs(fleet, PREFERENCES, "preferences")
    agents = {kernel["role"]: kernel["agent"] for kernel in view["kernels"]}
    assert agents["high"] == "r00n3"
    assert agents["low"] != "r00n3"
    shown = fleet.cli("session", "show", "preferences").stdout
    assert "low=r00n3, high=r00n3" in shown
    assert "high=5" in shown
    assert "it may not preempt others" in shown
    fleet.end("preferences", forced=True)


def test_an_agent_is_nominated_and_preemption_chosen_by_options(fleet: Embedded) -> None:
    options = ("--nominate", "r01n5", "--not-preemptible", "--preemption", "never")
    done = fleet.cli("run", "-d", "-n", "chosen", "--cpus", "1", *options, "--", "sleep", "600")
    assert done.returncode == 0, done.stderr
    view = fleet.reaches("chosen", "running")
    assert view["kernels"][0]["agent"] == view["kernels"][0]["nominated"] == "r01n5"
    assert (view["preemptible"], view["preemption"]) == (False, "never")
    fleet.end("chosen", forced=True)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("by: replica", "by: replicas", "no kernel group has a label 'replicas'"),
        ("minGroups: 2", "minGroups: 3", "only 2 groups by label replica have 8 kernels"),
        ("size: 8, min", "size: 0, min", "must be 1 or more"),
        ("hard:rack", "firm", "must be hard or soft"),
        ("labels: {replica: b}", "minimum: 9", "9 is not between 0 and the number of kernels, 8"),
        ("labels: {replica: b}", "nominated: 'no agent'", "'no agent'"),
        ("labels: {replica: b}", "priority: 10000000", "must be"),
        ("resources:", "preemption: sometimes\nresources:", "'sometimes' is none of always, never"),
        ("topology:", "closeness:", "a partition has no key 'closeness'"),
    ],
)
def test_a_bad_kernel_group_is_refused_and_nothing_is_stored(
    fleet: Embedded, before: str, after: str, problem: str
) -> None:
    assert before in REPLICAS
    text = HEAD + REPLICAS.replace("name: replicas\n", "name: refused\n").replace(before, after)
    done = fleet.cli("run", "-d", "-f", "-", stdin=text)
    assert done.returncode == 2, done.stdout + done.stderr
    assert problem in done.stderr
    assert all(one["name"] != "refused" for one in fleet.sessions())


def test_an_unknown_preemption_is_a_usage_error(fleet: Embedded) -> None:
    assert fleet.cli("run", "-d", "--preemption", "sometimes", "--", "true").returncode == 2
