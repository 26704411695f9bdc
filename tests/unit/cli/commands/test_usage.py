"""`sokovan usage`."""

from __future__ import annotations

import json

from tests.unit.cli.canned_server import CannedServer, Sokovan

ADA = {
    "scaling_group": "gpu",
    "kind": "user",
    "name": "ada",
    "weight": 2,
    "slots": {"cuda.device": 7200, "cpu": 60},
    "weighted": 288_240,
    "share": 144_120,
}


def test_usage_is_shown_in_readable_times(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET usage", {"items": [ADA]})
    head, line = sokovan("usage")[1].splitlines()
    assert head.split() == ["SCALING_GROUP", "KIND", "NAME", "USED", "WEIGHTED", "WEIGHT", "SHARE"]
    assert "cpu 1m, cuda.device 2h" in line
    assert line.split()[-3:] == ["2", "1d", "16h"]


def test_usage_of_one_scaling_group_is_requested(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET usage", {"items": [ADA]})
    assert json.loads(sokovan("usage", "--scaling-group", "gpu", "--json")[1])[0]["share"] == 144_120
