"""`sokovan what-if`."""

from __future__ import annotations

import json

from tests.unit.cli.canned_server import CannedServer, Sokovan

FOUND = {
    "before": {"starts": 1, "waits": 2, "evicts": 0},
    "after": {"starts": 0, "waits": 3, "evicts": 0},
    "sessions": [
        {"id": "s-1", "name": "ddp", "user": "ada", "queue": "research", "before": "PLACED", "after": "NO_ROOM"}
    ],
    "left_out": 0,
    "shares": [{"queue": "research", "slot": "cpu", "before": 2000, "after": 3000}],
}


def test_the_difference_of_two_plans_is_shown(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST what-if", FOUND)
    status, out, _ = sokovan("what-if", "--drain", "gpu-7", "--weight", "research=3", "--add", "gpu-8=2")
    assert (status, out.splitlines()[:3]) == (
        0,
        [
            "now:   1 start, 2 wait, 0 kernels are evicted",
            "after: 0 start, 3 wait, 0 kernels are evicted",
            "queue research deserves 3 cpu instead of 2",
        ],
    )
    assert out.splitlines()[4].split() == ["ddp", "ada", "research", "PLACED", "NO_ROOM"]
    assert json.loads(sokovan("what-if", "--drain", "gpu-7", "--json")[1])[0]["after"] == "NO_ROOM"


def test_a_change_is_needed_and_numbers_are_numbers(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("what-if")[0] == 2
    assert sokovan("what-if", "--weight", "research")[0] == 2
    assert sokovan("what-if", "--add", "a1=many")[0] == 2
    assert server.lines == []
