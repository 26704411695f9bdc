"""`sokovan timeline`."""

from __future__ import annotations

import json
from typing import Any

from sokovan.cli.commands.catalog.timeline import WIDTH, bar
from sokovan.wire.api.sessions import SessionRowView
from tests.unit.cli.canned_server import CannedServer, Sokovan

ROW: dict[str, Any] = {
    "id": "s-1", "name": "ddp", "status": "terminated", "result": "success", "user": "ada", "group": "default",
    "scaling_group": "default", "queue": "default", "priority": 0, "size": 1, "slots": {"cpu": 1000}, "agents": 1,
    "submitted_at": "1970-01-01T00:00:10.000Z", "scheduled_at": "1970-01-01T00:00:20.000Z",
    "since": "1970-01-01T00:00:30.000Z", "ended_at": "1970-01-01T00:00:30.000Z", "reason": None, "reason_detail": None,
}  # fmt: skip


def test_a_bar_has_dots_for_waiting_and_marks_for_holding() -> None:
    assert bar(SessionRowView(**ROW), 0, WIDTH, WIDTH) == "|" + " " * 10 + "." * 10 + "#" * 10 + " " * 10 + "|"
    waits = {**ROW, "status": "pending", "scheduled_at": None, "ended_at": None}
    assert bar(SessionRowView(**waits), 0, WIDTH, WIDTH) == "|" + " " * 10 + "." * 30 + "|"
    # One that was evicted holds nothing while it waits again.
    assert "#" not in bar(SessionRowView(**{**waits, "scheduled_at": ROW["scheduled_at"]}), 0, WIDTH, WIDTH)
    # Of the time after now nothing is known.
    assert bar(SessionRowView(**waits), 0, WIDTH, 20) == "|" + " " * 10 + "." * 10 + " " * 20 + "|"


def test_sessions_are_listed_with_their_times(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/rows", {"items": [ROW]})
    status, out, _ = sokovan("timeline", "--last", "7d", "--queue", "default")
    head, line = out.splitlines()
    assert (status, head.split()) == (0, ["NAME", "STATE", "WAITED", "HELD", "TIME"])
    assert line.split()[:4] == ["ddp", "TERMINATED", "10s", "10s"]
    assert "queue=default" in server.lines[0]
    assert "since=" in server.lines[0]
    sokovan("timeline", "--search", "ada train")
    assert "q=ada+train" in server.lines[-1]
    assert json.loads(sokovan("timeline", "--json")[1])[0]["name"] == "ddp"
    assert sokovan("timeline", "--limit", "0")[0] == 2
    assert sokovan("timeline", "--last", "ever")[0] == 2


def test_a_time_in_the_past_is_asked_for_with_its_end(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/rows", {"items": [ROW]})
    out = sokovan("timeline", "--from", "1970-01-01T00:00:00Z", "--to", "1970-01-01T00:00:40Z")[1]
    assert "|" + " " * 10 + "." * 10 + "#" * 10 + " " * 10 + "|" in out
    assert "since=1970-01-01T00%3A00%3A00.000Z" in server.lines[0]
    assert "until=1970-01-01T00%3A00%3A40.000Z" in server.lines[0]
