"""`sokovan why`."""

from __future__ import annotations

import json

import pytest

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
    "would_start": [{"when": "now", "change": "with --topology soft:rack"}],
    "history": [{"code": "QUOTA_USER", "summary": "s", "count": 3, "first": "2030-01-01", "last": "2030-01-02"}],
}


def test_the_verdict_comes_first_and_every_check_is_shown(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/tune-9/why", WHY)
    status, out, _ = sokovan("why", "tune-9")
    assert status == 0
    assert out == (
        "tune-9  PENDING  TOPOLOGY_NO_ROOM\n"
        "  the best rack r03 has 3 of 4 agents free\n"
        "  what to do: nothing; it starts when its turn comes\n"
        "  agents: all 128 → fits now 11 → topology 0\n"
        "  ahead of it in its queue: 2\n"
        "  behind ddp: came first\n"
        "  behind 1 more\n"
        "\n"
        "  CHECK  RESULT  DETAIL\n"
        "  quota  ok\n"
        "  room   short   1 agent\n"
        "\n"
        "  would start now with --topology soft:rack\n"
        "\n"
        "  REASON SO FAR  TIMES  FIRST       LAST\n"
        "  QUOTA_USER     3      2030-01-01  2030-01-02\n"
    )


@pytest.mark.parametrize(
    ("about", "help_text"),
    [
        ("CHANGE COMMAND_FAILED", "see its output: sokovan logs tune-9"),
        ("CHANGE TIME_LIMIT_REACHED", "increase --time-limit; see its output: sokovan logs tune-9"),
        ("CHANGE QUOTA_USER", "request less, or ask an administrator to raise the quota"),
        ("CHANGE NEVER_FITS", "change the request"),
        ("WAIT QUOTA_USER", "nothing; it starts when its turn comes"),
        ("WAIT QUEUE_OVER_SHARE", "wait for running sessions to end, or request less"),
        ("BROKEN FAILED", "report it to an administrator: something is broken"),
    ],
)
def test_advice_depends_on_verdict_and_reason(
    server: CannedServer, sokovan: Sokovan, about: str, help_text: str
) -> None:
    verdict, code = about.split()
    server.says("GET sessions/tune-9/why", {**WHY, "verdict": verdict, "code": code})
    assert f"  what to do: {help_text}\n" in sokovan("why", "tune-9")[1]


def test_a_queue_over_its_share_waits(server: CannedServer, sokovan: Sokovan) -> None:
    checks = [{"name": "queue", "result": "short", "detail": "queue a uses 4 cpu and deserves 4"}]
    server.says("GET sessions/tune-9/why", {**WHY, "code": "QUEUE_OVER_SHARE", "checks": checks})
    assert "what to do: nothing; it starts when its turn comes" in sokovan("why", "tune-9")[1]


def test_the_time_out_is_shown(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/tune-9/why", {**WHY, "times_out_at": "2030-01-01T00:00:00Z"})
    assert "  times out at 2030-01-01T00:00:00Z, unless it starts before\n" in sokovan("why", "tune-9")[1]


def test_sessions_ahead_that_are_not_listed_are_counted(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/tune-9/why", {**WHY, "position": 1_200})
    assert "  behind ddp: came first\n  behind 1199 more\n" in sokovan("why", "tune-9")[1]


def test_json_prints_the_object(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/tune-9/why", WHY)
    assert json.loads(sokovan("session", "why", "tune-9", "--json")[1])["funnel"]["all"] == 128


def test_pending_sessions_are_counted_by_reason(server: CannedServer, sokovan: Sokovan) -> None:
    reason = {"code": "QUOTA_GROUP", "verdict": "ASK_ADMIN", "sessions": 4, "slots": {"cuda.device": 16}}
    reason |= {"oldest": "2030-01-01T00:00:00Z", "meaning": "the group is at its limit"}
    server.says("GET sessions/waiting", {"items": [reason]})
    _, out, _ = sokovan("why", "--all")
    assert out.splitlines()[1].split()[:3] == ["QUOTA_GROUP", "4", "16"]


def test_either_a_name_or_all_is_required(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("why")[0] == 2
    assert sokovan("why", "a", "--all")[0] == 2
    assert server.asked == []
