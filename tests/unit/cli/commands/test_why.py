"""`sokovan why`: why a session waits."""

from __future__ import annotations

import json

from tests.unit.cli.canned_server import CannedServer, Sokovan

WHY = {
    "session": "s-1",
    "status": "pending",
    "verdict": "WAIT",
    "code": "TOPOLOGY_NO_ROOM",
    "summary": "the best rack r03 has 3 of 4 agents free",
    "checks": [{"name": "quota", "result": "ok"}, {"name": "room", "result": "short", "detail": "1 agent"}],
    "funnel": {"all": 128, "fits_now": 11, "topology": 0},
    "position": 2,
    "ahead": [{"session": "ddp", "why": "came first"}],
    "would_start": [{"when": "now", "change": "--topology soft:rack"}],
    "history": [{"code": "QUOTA_USER", "summary": "s", "count": 3, "first": "2030-01-01", "last": "2030-01-02"}],
}


def test_the_verdict_comes_first_and_every_check_is_shown(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/tune-9/why", WHY)
    status, out, _ = sokovan("why", "tune-9")
    assert status == 0
    assert out == (
        "tune-9  PENDING  TOPOLOGY_NO_ROOM\n"
        "  the best rack r03 has 3 of 4 agents free\n"
        "  what to do: nothing: wait, its turn will come\n"
        "  agents: all 128 → fits_now 11 → topology 0\n"
        "  place in its queue: 2\n"
        "  behind ddp: came first\n"
        "\n"
        "  CHECK  RESULT  DETAIL\n"
        "  quota  ok\n"
        "  room   short   1 agent\n"
        "\n"
        "  would start:\n"
        "    now: --topology soft:rack\n"
        "\n"
        "  REASON SO FAR  TIMES  FIRST       LAST\n"
        "  QUOTA_USER     3      2030-01-01  2030-01-02\n"
    )


def test_programs_get_the_object(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/tune-9/why", WHY)
    assert json.loads(sokovan("session", "why", "tune-9", "--json")[1])["funnel"]["all"] == 128


def test_all_that_waits_is_counted_by_reason(server: CannedServer, sokovan: Sokovan) -> None:
    reason = {"code": "QUOTA_GROUP", "verdict": "ASK_ADMIN", "sessions": 4, "slots": {"cuda.device": 16}}
    reason |= {"oldest": "2030-01-01T00:00:00Z", "meaning": "the group is at its limit"}
    server.says("GET sessions/waiting", {"items": [reason]})
    _, out, _ = sokovan("why", "--all")
    assert out.splitlines()[1].split()[:3] == ["QUOTA_GROUP", "4", "16"]


def test_one_is_named_or_all_are_meant(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("why")[0] == 2
    assert sokovan("why", "a", "--all")[0] == 2
    assert server.asked == []
