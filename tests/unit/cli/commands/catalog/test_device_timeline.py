"""`sokovan agent timeline`."""

from __future__ import annotations

import json
from typing import Any

from sokovan.cli.commands.catalog.device_timeline import WIDTH
from tests.unit.cli.canned_server import CannedServer, Sokovan


def at(second: int) -> str:
    return f"1970-01-01T00:00:{second:02d}.000Z"


HOLD = {"agent": "gpu2", "device": "d0", "units": 1, "session": "s-1", "name": "ddp", "user": "ada", "queue": "q"}
FOUND: dict[str, Any] = {
    "since": at(0), "until": at(WIDTH), "agents": ["gpu2", "gpu3"], "devices": {"gpu2": ["d0", "d1"], "gpu3": ["d0"]},
    "holds": [{**HOLD, "since": at(0), "until": at(10)}, {**HOLD, "since": at(30), "until": None, "name": ""}],
    "closed": [{"agent": "gpu3", "status": "draining", "since": at(20), "until": None}],
    "bookings": [
        {"name": "b", "kind": "booking", "starts_at": at(0), "ends_at": at(5), "agents": ["gpu3"]},
    ],
    "kept": [], "cut": False, "next": None,
}  # fmt: skip


def test_each_device_has_a_bar_of_its_time(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET timeline", FOUND)
    status, out, told = sokovan("agent", "timeline", "--last", "24h")
    head, first, second, third = out.splitlines()
    assert (status, told, head.split()) == (0, "", ["AGENT", "DEVICE", "TIME", "SESSIONS"])
    assert f"|{'#' * 10}{' ' * 20}{'#' * 10}|" in first
    assert first.endswith("(hidden), ddp")
    assert f"|{' ' * WIDTH}|" in second
    assert f"|{'=' * 5}{' ' * 15}{'/' * 20}|" in third
    assert "since=" in server.lines[0]
    assert json.loads(sokovan("agent", "timeline", "gpu2", "--json")[1])[0]["agents"] == ["gpu2", "gpu3"]
    assert "agent=gpu2" in server.lines[-1]


def test_what_is_left_out_is_said(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET timeline", {**FOUND, "cut": True, "next": "more"})
    told = sokovan("agent", "timeline", "--limit", "2")[2]
    assert "not all holds are listed" in told
    assert "the first 2 agents are listed" in told
    assert len(server.lines) == 1
    assert sokovan("agent", "timeline", "--limit", "0")[0] == 2
