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
