"""`sokovan topology`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.canned_server import CannedServer, Sokovan

CHANGE = {"applied": True, "hypernodes": 2, "agents": 3, "unplaced": 1, "violation_count": 0, "violations": []}


def node(name: str, parent: str, *, tier: int = 0, agents: int = 1) -> dict[str, Any]:
    slots = {"cpu": 8000 * agents}
    return {
        "name": name,
        "kind": "hypernode" if tier else "agent",
        "tier": tier,
        "tier_name": {1: "rack", 2: "zone"}.get(tier, ""),
        "parent": parent,
        "origin": "label" if tier else "",
        "agents": agents,
        "slots": slots,
        "used": {},
        "free": slots,
        "status": "" if tier else "alive",
    }


TREE = [
    node("z1", "", tier=2, agents=3),
    node("z1/r1", "z1", tier=1, agents=2),
    node("a1", "z1/r1"),
    node("a2", "z1/r1"),
    node("a3", "z1"),
    node("a4", ""),
]
VIEW = {"tiers": [], "hypernodes": [], "tree": TREE}


@pytest.mark.slow
def test_the_topology_is_shown_as_a_tree(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET topology", VIEW)
    status, out, _ = sokovan("topology", "show")
    assert status == 0
    shown = [line.split("  ")[0].rstrip() for line in out.splitlines()[1:]]
    assert shown == ["z1", "├─ z1/r1", "│", "│", "└─ a3", "a4"]
    assert "│  ├─ a1" in out
    assert "│  └─ a2" in out
    assert "2 zone" in out
    assert "24/24" in out
    below = sokovan("topology", "show", "z1/r1", "-o", "name")[1].split()
    assert below == ["z1/r1", "a1", "a2"]
    assert sokovan("topology", "show", "nobody")[0] == 3
    assert json.loads(sokovan("topology", "show", "--json")[1])[1]["name"] == "z1/r1"


def test_hypernodes_are_listed(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET topology", VIEW)
    assert sokovan("topology", "ls", "-o", "name")[1].split() == ["z1", "z1/r1"]


def test_a_file_is_applied_and_unmet_constraints_are_reported(
    server: CannedServer, sokovan: Sokovan, tmp_path: Path
) -> None:
    broken = {"session": "s1", "name": "ddp", "status": "running", "group": "g", "constraint": "hard:rack"}
    change = {**CHANGE, "violation_count": 2, "violations": [{**broken, "problem": "its kernels are in z1"}]}
    server.says("PUT topology", change)
    file = tmp_path / "topology.yaml"
    file.write_text("tiers: [rack, zone]\n")
    status, _, told = sokovan("topology", "apply", "-f", str(file), "--dry-run")
    assert status == 0
    assert told.splitlines() == [
        "applied: 2 HyperNodes over 3 agents, 1 of them in none",
        "not met: ddp RUNNING group g hard:rack: its kernels are in z1",
        "not met: 1 more",
    ]
    file.write_text("tiers: 7\n")
    status, _, told = sokovan("topology", "apply", "-f", str(file))
    assert status == 2
    assert "a list of tiers" in told
    assert len(server.asked) == 1


def test_the_topology_is_removed_after_a_confirmation(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("DELETE topology", {**CHANGE, "applied": False, "unplaced": 0})
    assert sokovan("topology", "rm")[0] == 2
    assert server.asked == []
    assert sokovan("topology", "rm", "--yes")[0] == 0
    assert sokovan("topology", "rm", "--dry-run")[2] == "dry run, nothing changed: 2 HyperNodes over 3 agents\n"
