"""`sokovan agent devices`."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli.canned_server import CannedServer, Sokovan

FLEET: dict[str, Any] = {
    "as_of": "2030-01-01T00:00:00Z",
    "hypernodes": ["r1"],
    "holders": [{"id": "s-1", "name": "train", "user": "ada", "queue": "q"}],
    "agents": ["a1", "a2"],
    "status": ["alive", "alive"],
    "connected": [True, True],
    "kernels": [1, 0],
    "hypernode": [0, -1],
    "device": ["gpu0", "gpu1", "gpu0"],
    "device_agent": [0, 0, 1],
    "device_slot": ["cuda.device"] * 3,
    "device_units": [1, 1, 1],
    "device_used": [1, 0, 1],
    "device_holder": [0, -1, -2],
    "device_fault": ["", "", "lost"],
    "device_use": [97, 0, -1],
    "device_memory": [80, 0, -1],
    "device_temperature": [64, 31, -1],
}


def test_devices_are_listed_with_their_sessions(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET fleet", FLEET)
    rows = [line.split() for line in sokovan("agent", "devices")[1].splitlines()[1:]]
    assert rows == [
        ["a1", "r1", "gpu0", "cuda.device", "1/1", "train", "ada", "97%", "80%", "64C", "-"],
        ["a1", "r1", "gpu1", "cuda.device", "0/1", "-", "-", "0%", "0%", "31C", "-"],
        ["a2", "-", "gpu0", "cuda.device", "1/1", "-", "-", "-", "-", "-", "lost"],
    ]
    assert len(sokovan("agent", "devices", "a2")[1].splitlines()) == 2


CHANGE: dict[str, Any] = {
    "as_of": "2030-01-01T00:00:01Z",
    "device_at": [1, 2],
    "device_used": [1, 1],
    "device_holder": [0, -2],
    "device_fault": ["", ""],
    "holders": [{"id": "s-2", "name": "eval", "user": "bob", "queue": "q"}],
    "measured": True,
    "figure_at": [0],
    "device_use": [96],
    "device_memory": [80],
    "device_temperature": [64],
}
GONE = {"as_of": "2030-01-01T00:00:02Z", "gone": ["a2"], "measured": True}
REVOKED = {
    "type": "",
    "title": "T",
    "status": 401,
    "detail": "over",
    "code": "unauthenticated",
    "hint": "",
    "request_id": "",
}


def test_a_line_is_printed_for_each_device_that_changes(server: CannedServer, sokovan: Sokovan) -> None:
    events = [("fleet", FLEET), ("change", CHANGE), ("change", GONE), ("problem", REVOKED)]
    server.streams("GET fleet/events", *events)
    lines = [line.split() for line in sokovan("agent", "devices", "--watch")[1].splitlines()]
    assert [line[0] for line in lines[:4]] == ["AGENT", "a1", "a1", "a2"]
    assert lines[4:] == [
        ["a1", "r1", "gpu1", "cuda.device", "1/1", "eval", "bob", "0%", "0%", "31C", "-"],
        ["a2", "-", "gpu0", "cuda.device", "1/1", "-", "-", "-", "-", "-", "-"],
        ["a2", "-", "gpu0", "cuda.device", "0/1", "-", "-", "-", "-", "-", "gone"],
    ]
    server.streams("GET fleet/events", *events)
    told = [json.loads(line) for line in sokovan("agent", "devices", "a2", "--watch", "--json")[1].splitlines()]
    assert [(one["agent"], one["used"], one["fault"], one["gone"]) for one in told] == [
        ("a2", 1, "lost", False),
        ("a2", 1, "", False),
        ("a2", 0, "", True),
    ]


def test_after_a_gap_only_what_differs_is_printed(server: CannedServer, sokovan: Sokovan) -> None:
    later = {**FLEET, "device_fault": ["", "hot", "lost"], "device_use": [1, 2, 3]}
    server.streams("GET fleet/events", ("fleet", FLEET), ("fleet", later), ("problem", REVOKED))
    told = [json.loads(line) for line in sokovan("agent", "devices", "--watch", "-o", "jsonl")[1].splitlines()]
    assert [(one["agent"], one["device"], one["fault"]) for one in told[3:]] == [("a1", "gpu1", "hot")]


SMALLER = {
    **FLEET,
    **{name: FLEET[name][1:] for name in FLEET if name.startswith("device")},
    "device_agent": [0, 1],
    "device_holder": [-1, -2],
}


def told_of(sokovan: Sokovan, *words: str) -> list[tuple[str, str, bool]]:
    lines = sokovan("agent", "devices", *words, "--watch", "--json")[1].splitlines()
    return [(one["agent"], one["device"], one["gone"]) for one in map(json.loads, lines)][3:]


def test_a_device_that_leaves_an_agent_that_stays_is_gone(server: CannedServer, sokovan: Sokovan) -> None:
    server.streams("GET fleet/events", ("fleet", FLEET), ("fleet", SMALLER), ("problem", REVOKED))
    assert told_of(sokovan) == [("a1", "gpu0", True)]
    again = {
        "as_of": "2030-01-01T00:00:01Z", "gone": ["a1"], "joined": ["a1"], "joined_devices": [1],
        "device": ["gpu1"], "device_slot": ["cuda.device"], "device_units": [1],
        "agent_at": [0], "status": ["alive"], "connected": [True], "kernels": [0], "hypernode": [0],
        "device_at": [0], "device_used": [0], "device_holder": [-1], "device_fault": [""], "measured": True,
    }  # fmt: skip
    server.streams("GET fleet/events", ("fleet", FLEET), ("change", again), ("problem", REVOKED))
    assert told_of(sokovan) == [("a1", "gpu0", True)]


def test_a_device_that_goes_from_one_unseen_holder_to_another_is_not_printed(
    server: CannedServer, sokovan: Sokovan
) -> None:
    unseen = {**CHANGE, "device_at": [2], "device_used": [1], "device_holder": [-2], "device_fault": ["lost"]}
    server.streams("GET fleet/events", ("fleet", FLEET), ("change", unseen), ("problem", REVOKED))
    assert told_of(sokovan) == []


def test_an_agent_that_is_not_there_yet_is_waited_for_aloud(server: CannedServer, sokovan: Sokovan) -> None:
    server.streams("GET fleet/events", ("fleet", FLEET), ("problem", REVOKED))
    assert "there is no agent a9 yet" in sokovan("agent", "devices", "a9", "--watch")[2]
