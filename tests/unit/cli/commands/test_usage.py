"""`sokovan usage`."""

from __future__ import annotations

import json

import pytest

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


HISTORY = {"since": "2026-01-01T12:00:00.000Z", "until": "2026-01-01T14:00:00.000Z", "step_s": 3600, "by": "queue"}


def test_usage_over_time_has_a_line_for_each_step(server: CannedServer, sokovan: Sokovan) -> None:
    series = [{"name": "research", "slot": "cuda.device", "used": [3, 4]}]
    server.says("GET usage/history", {**HISTORY, "items": series})
    words = ["usage", "--last", "2h", "--step", "1h", "--by", "queue", "--slot", "cuda.device"]
    head, *lines = sokovan(*words, "--utc")[1].splitlines()
    assert head.split() == ["FROM", "QUEUE", "SLOT", "USED"]
    assert [line.split() for line in lines] == [
        ["2026-01-01T12:00:00Z", "research", "cuda.device", "3"],
        ["2026-01-01T13:00:00Z", "research", "cuda.device", "4"],
    ]
    assert "step=3600" in server.lines[0]
    assert "by=queue" in server.lines[0]
    assert json.loads(sokovan(*words, "--json")[1])[1]["used"] == 4


@pytest.mark.parametrize(
    ("last", "step_s"), [("1m", 10), ("1h", 300), ("24h", 3_600), ("7d", 43_200), ("90d", 604_800)]
)
def test_usage_over_time_has_few_lines_unless_a_step_is_given(
    server: CannedServer, sokovan: Sokovan, last: str, step_s: int
) -> None:
    server.says("GET usage/history", {**HISTORY, "step_s": step_s, "items": []})
    assert sokovan("usage", "--last", last)[0] == 0
    assert f"step={step_s}&" in f"{server.lines[0]}&"


def test_sessions_over_time_are_requested(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET usage/history", {**HISTORY, "items": [{"name": "", "slot": "waiting", "used": [3, 4]}]})
    lines = sokovan("usage", "--last", "2h", "--step", "1h", "--of", "sessions", "--utc")[1].splitlines()
    assert [line.split()[1:] for line in lines] == [["SLOT", "USED"], ["waiting", "3"], ["waiting", "4"]]
    assert "of=sessions" in server.lines[0]


def test_steps_of_usage_need_a_time(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("usage", "--by", "queue")[0] == 2
    assert server.lines == []


def test_the_shares_of_queues_are_shown_in_their_units(server: CannedServer, sokovan: Sokovan) -> None:
    share = {"queue": "a", "scaling_group": "default", "guarantee": 0, "limit": 0, "borrowed": 1000, "waiting": 0}
    rows = [
        {**share, "slot": "cpu", "allocated": 3000, "deserved": 2000},
        {**share, "slot": "cuda.device", "allocated": 2, "borrowed": 0, "deserved": None},
    ]
    server.says("GET queue-shares", {"items": rows})
    head, *lines = sokovan("queue", "shares", "a")[1].splitlines()
    assert head.split() == ["QUEUE", "SLOT", "IN_USE", "DESERVED", "GUARANTEE", "BORROWED", "WAITING"]
    assert [line.split() for line in lines] == [
        ["a", "cpu", "3", "2", "0", "1", "0"],
        ["a", "cuda.device", "2", "-", "0", "0", "0"],
    ]
    assert "queue=a" in server.lines[-1]


def test_the_audit_log_is_listed_with_its_filters(server: CannedServer, sokovan: Sokovan) -> None:
    entry = {"number": 7, "at": "2026-01-01T12:00:00Z", "who": "ada", "action": "session.stop", "target": "s-1"}
    server.says("GET audit-log", {"items": [{**entry, "outcome": "done", "detail": {"forced": "no"}}]})
    head, line = sokovan("audit-log", "--who", "ada", "--action", "session", "--limit", "5", "--utc")[1].splitlines()
    assert head.split() == ["NUMBER", "AGE", "WHO", "ACTION", "TARGET", "OUTCOME"]
    assert line.split()[0] == "7"
    assert line.split()[-4:] == ["ada", "session.stop", "s-1", "done"]
    assert server.lines == ["GET audit-log?who=ada&action=session&limit=5"]
    assert sokovan("audit-log", "--limit", "0")[0] == 2


@pytest.mark.parametrize(("broken", "code"), [(None, 0), (7, 1)])
def test_the_chain_of_the_audit_log_is_checked(
    server: CannedServer, sokovan: Sokovan, broken: int | None, code: int
) -> None:
    server.says(
        "GET audit-log/chain",
        {"intact": broken is None, "first_broken": broken, "checked_at": "2030-01-01T00:00:00.000Z"},
    )
    status, out, _ = sokovan("audit-log", "--check")
    assert status == code
    assert ("intact        yes" if broken is None else "first broken  7") in out
