"""The topology of real agents: applied, shown, changed while sessions run, and refused."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well

# Racks of eight fake agents: r00n0 to r00n7, r01n0 to r01n7.
BY_LABEL = "tiers: [nvlink, rack, zone]\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up --fake 16x8`."""
    server = Embedded(tmp_path_factory.mktemp("fleet"))
    with ended_well(server):
        server.start("--fake", "16x8", "--no-agent")
        yield server


def applied(fleet: Embedded, text: str, *options: str) -> str:
    done = fleet.cli("topology", "apply", "-f", "-", *options, stdin=text)
    assert done.returncode == 0, done.stderr
    return done.stderr


def hypernodes(fleet: Embedded) -> dict[str, int]:
    return {node["name"]: node["agents"] for node in fleet.cli_json("topology", "ls")}


def test_rules_by_label_place_agents_and_a_hard_constraint_holds(fleet: Embedded) -> None:
    racks = {"fake": 16, "r00": 8, "r01": 8}
    until(lambda: hypernodes(fleet) == racks, what="the agents have joined")
    for agent in ("r00n0", "r00n1", "r01n0"):
        assert fleet.cli("agent", "label", agent, "zone=z1").returncode == 0
    assert "dry run, nothing changed: 5 HyperNodes over 16 agents" in applied(fleet, BY_LABEL, "--dry-run")
    assert hypernodes(fleet) == {"fake": 16, "r00": 8, "r01": 8}
    assert "applied: 5 HyperNodes over 16 agents" in applied(fleet, BY_LABEL)
    assert hypernodes(fleet) == {"r00": 6, "r01": 7, "z1": 3, "z1/r00": 2, "z1/r01": 1}
    tree = fleet.cli("topology", "show", "z1").stdout
    assert [line.split()[:2] for line in tree.splitlines()[1:4]] == [["z1", "3"], ["├─", "z1/r00"], ["│", "├─"]]
    session = fleet.submit("sleep", "600", size=2, resources={"cuda.device": 8}, topology="hard:rack")
    shown = fleet.reaches(session["id"], "running")
    assert shown["hypernode"] in {"r00", "r01", "z1/r00"}
    assert shown["hypernode"] in fleet.cli("session", "show", session["id"]).stdout

    agent = shown["kernels"][0]["agent"]
    moved = fleet.cli("agent", "label", agent, "rack=elsewhere")
    assert "not met" in moved.stderr
    assert "hard:rack" in moved.stderr
    assert "not met" in applied(fleet, "tiers: [zone]\n", "--dry-run")
    assert "not met" not in fleet.cli("agent", "label", agent, "rack-").stderr
    fleet.end(session["id"], forced=True)


def test_watched_devices_are_printed_as_sessions_take_and_leave_them(fleet: Embedded) -> None:
    until(lambda: len(fleet.cli_json("agent", "ls")) == 16, what="the agents have joined")
    with (fleet.folder / "devices.jsonl").open("w+b") as output:
        watching = fleet.started(output, "agent", "devices", "--watch", "--json")

        def lines() -> list[dict[str, Any]]:
            text = (fleet.folder / "devices.jsonl").read_text(encoding="utf-8")
            return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

        try:
            until(lambda: len(lines()) == 16 * 8, what="all devices are listed")
            session = fleet.submit("sleep", "600", name="watched", resources={"cuda.device": 3})
            until(lambda: len(lines()) == 16 * 8 + 3, what="the devices of the session are printed")
            fleet.end(session["id"], forced=True)
            until(lambda: len(lines()) == 16 * 8 + 6, what="they are printed again")
            taken = [(one["used"], one["session"]) for one in lines()[16 * 8 :]]
        finally:
            watching.send_signal(signal.SIGINT)
            watching.wait(60)
    assert taken == [(1, "watched")] * 3 + [(0, "")] * 3


def test_a_session_waits_with_the_reason_of_each_tier(fleet: Embedded) -> None:
    applied(fleet, BY_LABEL)
    session = fleet.submit("sleep", "1", size=9, resources={"cuda.device": 8}, topology="hard:rack")
    until(lambda: fleet.session(session["id"])["reason"] not in {"", None}, what="a cycle has considered it")
    why = fleet.cli("why", session["id"]).stdout
    assert "TOPOLOGY_IMPOSSIBLE" in why or "TOPOLOGY_NO_ROOM" in why
    assert "rack" in why
    fleet.end(session["id"], forced=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tiers: [a, b]\nhypernodes: [{name: x, tier: a, members: [y]}, {name: y, tier: a, members: [x]}]\n", "cycle"),
        ("tiers: [rack]\nhypernodes: [{name: x, tier: pod, members: [r00n0]}]\n", "there is no tier 'pod'"),
        ("tiers: [rack]\nhypernodes: [{name: x, tier: rack, members: [nobody]}]\n", "neither agent nor HyperNode"),
        (
            "tiers: [a]\nhypernodes: [{name: x, tier: a, members: [r00n0]}, {name: y, tier: a, members: [r00n0]}]",
            "already",
        ),
        ("tiers: [rack, rack]\n", "given twice"),
        ("racks: []\n", "has no key 'racks'"),
        ("tiers: {}\n", "a list of tiers"),
    ],
)
def test_a_bad_topology_is_refused_and_nothing_is_stored(fleet: Embedded, text: str, problem: str) -> None:
    applied(fleet, BY_LABEL)
    before = fleet.cli_json("topology", "show")
    refused = fleet.cli("topology", "apply", "-f", "-", stdin=text)
    assert refused.returncode != 0
    assert problem in refused.stderr
    assert fleet.cli_json("topology", "show") == before


def test_a_topology_and_labels_survive_a_restart_and_can_be_removed(fleet: Embedded) -> None:
    applied(fleet, BY_LABEL)
    fleet.cli("agent", "label", "r00n0", "zone=z9")
    before = hypernodes(fleet)
    assert "z9/r00" in before
    fleet.stop()
    fleet.start("--fake", "16x8", "--no-agent")
    assert hypernodes(fleet) == before
    for bad in (("r00n0", "sokovan.fake=no"), ("r00n0", "rack-"), ("nobody", "a=b"), ("r00n0", "plain"), ("r00n0",)):
        assert fleet.cli("agent", "label", *bad).returncode != 0
    assert fleet.cli("topology", "rm", "--yes").returncode == 0
    assert hypernodes(fleet) == {}
