"""`sokovan limits`."""

from __future__ import annotations

import json

from tests.unit.cli.canned_server import CannedServer, Sokovan

FOUND = {
    "kind": "user", "name": "ada", "policy": "small", "limits": {"cuda.device": 8, "cpu": 4000},
    "used": {"cuda.device": 6, "cpu": 500}, "sessions": 2, "sessions_max": 5,
}  # fmt: skip


def test_each_limit_is_a_line_with_what_is_used(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET limits", {"items": [FOUND], "next": None})
    status, out, _ = sokovan("limits", "--kind", "user")
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [
        ["OWNER", "QUOTA", "OF", "USED", "LIMIT"],
        ["user", "ada", "small", "cpu", "0.5", "4"],
        ["user", "ada", "small", "cuda.device", "6", "8"],
        ["user", "ada", "small", "sessions", "2", "5"],
    ]
    assert "kind=user" in server.lines[0]
    assert json.loads(sokovan("limits", "--json")[1]) == [FOUND]


def test_an_owner_without_a_limit_on_sessions_has_no_line_for_them(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET limits", {"items": [{**FOUND, "sessions_max": None}], "next": None})
    assert "sessions" not in sokovan("limits")[1]


def test_an_unknown_kind_is_refused_before_a_request(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("limits", "--kind", "queue")[0] == 2
    assert server.lines == []
