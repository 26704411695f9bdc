"""Sessions and their kernels, for the sync client."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import pytest

from sokovan.sdk.core.retries import READS
from sokovan.sdk.core.streams.followers import LogOptions
from sokovan.sdk.errors import ClientProblem, InvalidSetting, NeverReached, ServerFailed, StillWaiting
from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.sync.sessions import Kernels, Sessions
from sokovan.wire.api.sessions import HistoryView, LogChunk, SessionBody
from tests.unit.sdk.fake_server import ENDPOINT, CannedResponse, FakeClock, FakeServer, ok, problem, stream
from tests.unit.sdk.views import KERNEL, SESSION, ended, pending, session


def opened(*responses: CannedResponse) -> tuple[Sessions, Kernels, FakeServer]:
    """Sessions of a server that gives these responses."""
    server = FakeServer(*responses)
    connection = Connection(ENDPOINT, transport=server.transport(), environment=FakeClock())
    return Sessions(connection), Kernels(connection), server


def test_every_submission_has_a_key_of_its_own() -> None:
    sessions, _, server = opened(ok(SESSION), ok(SESSION), ok(SESSION))
    for key in (None, None, "mine"):
        sessions.submit(SessionBody(command=["x"]), key=key)
    assert [one.headers["idempotency-key"] for one in server.requests] == ["key-1", "key-2", "mine"]


def test_a_list_is_read_page_by_page_and_no_further_than_it_is_taken() -> None:
    page = {"items": [SESSION, SESSION], "next": "c1"}
    sessions, _, server = opened(ok(page), ok({"items": [SESSION], "next": None}))
    found = sessions.list(mine=True)
    next(found)
    next(found)
    assert server.lines == ["GET /api/v1/sessions?mine=true&limit=100"]
    assert len(list(found)) == 1
    assert server.lines[1] == "GET /api/v1/sessions?mine=true&limit=100&cursor=c1"


def test_a_limit_ends_a_list() -> None:
    sessions, _, server = opened(
        ok({"items": [SESSION, SESSION], "next": "c1"}), ok({"items": [SESSION], "next": "c2"})
    )
    assert len(list(sessions.list(limit=3))) == 3
    assert server.lines == ["GET /api/v1/sessions?limit=3", "GET /api/v1/sessions?limit=1&cursor=c1"]


def test_waiting_ends_when_the_state_is_there() -> None:
    sessions, _, _ = opened(stream(("session", pending()), ("session", session()), ("session", ended())))
    assert sessions.wait("ddp", "running").status == "running"


def test_waiting_waits_for_the_end_by_default() -> None:
    sessions, _, _ = opened(stream(("session", pending()), ("session", ended(exit_code=3))))
    assert sessions.wait("ddp").exit_code == 3


def test_waiting_for_a_state_that_is_never_reached_raises() -> None:
    sessions, _, _ = opened(stream(("session", pending(status="cancelled", reason="user-requested"))))
    with pytest.raises(NeverReached):
        sessions.wait("ddp", "RUNNING")


def test_waiting_ends_at_the_deadline_with_the_current_state() -> None:
    sessions, _, _ = opened(*[stream(("session", pending()))] * 30)
    with pytest.raises(StillWaiting, match="ddp is still PENDING after 3 s"):
        sessions.wait("ddp", "RUNNING", timeout=3)


def test_waiting_without_any_response_ends_at_the_deadline() -> None:
    sessions, _, _ = opened(*[httpx2.ConnectError("refused")] * 30)
    with pytest.raises(StillWaiting, match="no response for ddp after 1 s"):
        sessions.wait("ddp", "RUNNING", timeout=1)


def test_a_state_that_there_is_not_is_refused_before_anything_is_sent() -> None:
    sessions, _, server = opened()
    with pytest.raises(InvalidSetting):
        sessions.wait("ddp", "WALKING")
    assert server.requests == []


def test_every_other_question_is_one_request() -> None:
    why = {"session": "s-1", "status": "pending", "verdict": "WAIT", "code": "X", "summary": "s"}
    plan = {"would_start": "now", "code": "PLACED", "summary": "s", "verdict": "NOTHING", "slots": {}, "size": 1}
    plan |= {"scaling_group": "d", "queue": "q", "image": "host"}
    history = HistoryView(session="s-1", lines=[])
    chunk = LogChunk(kernel=0, offset=0, next_offset=1, data="YQ==", end=True)
    page = {"items": [KERNEL], "next": None}
    sessions, kernels, server = opened(
        ok(SESSION), ok(SESSION), ok(SESSION), ok(why), ok({"items": []}), ok(history), ok(plan), ok(page),
        ok(chunk), stream(("log", chunk)),
    )  # fmt: skip
    sessions.get("a")
    sessions.stop("a", forced=True)
    sessions.cancel("a")
    assert sessions.why("a").code == "X"
    assert sessions.waiting().items == []
    assert sessions.history("a") == history
    assert sessions.plan(SessionBody()).would_start == "now"
    assert kernels.list("a") == [KERNEL]
    assert kernels.log("a", 0, tail=3) == chunk
    assert [piece.content for piece in sessions.logs("a", LogOptions(kernel=0))] == [b"a"]
    assert server.lines == [
        "GET /api/v1/sessions/a",
        "DELETE /api/v1/sessions/a?forced=true",
        "POST /api/v1/sessions/a/cancel",
        "GET /api/v1/sessions/a/why",
        "GET /api/v1/sessions/waiting",
        "GET /api/v1/sessions/a/history?limit=100",
        "POST /api/v1/sessions/plan",
        "GET /api/v1/sessions/a/kernels?limit=100",
        "GET /api/v1/sessions/a/kernels/0/log?tail=3",
        "GET /api/v1/sessions/a/log?kernel=0",
    ]


def test_output_that_cannot_be_read_is_given_up_soon_unless_it_is_followed() -> None:
    gone = [problem(503, "agent-unreachable") for _ in range(10)]
    sessions, _, server = opened(*gone)
    with pytest.raises(ServerFailed):
        list(sessions.logs("a", LogOptions(kernel=0)))
    assert len(server.requests) == READS.attempts_max
    heard: list[ClientProblem] = []
    last = LogChunk(kernel=0, offset=0, next_offset=1, data="YQ==", end=True)
    sessions, _, server = opened(*gone, stream(("log", last)))
    pieces = sessions.logs("a", LogOptions(kernel=0, follow=True), on_retry=heard.append)
    assert [piece.content for piece in pieces] == [b"a"]
    assert [one.code for one in heard] == ["agent-unreachable"] * 10


def test_a_problem_inside_a_stream_counts_as_a_failure() -> None:
    problem = {"type": "", "title": "T", "status": 503, "detail": "d", "code": "agent-unreachable", "hint": "h"}
    sessions, _, server = opened(*(stream(("problem", problem)) for _ in range(10)))
    with pytest.raises(ServerFailed):
        list(sessions.logs("a", LogOptions(kernel=0)))
    assert len(server.requests) == READS.attempts_max


def test_following_all_kernels_requests_their_number_first() -> None:
    first = LogChunk(kernel=0, offset=0, next_offset=1, data="YQ==", end=True)
    second = LogChunk(kernel=1, offset=0, next_offset=1, data="Yg==", end=True)
    # The server stops before the second kernel has spoken: the stream is opened again.
    sessions, _, server = opened(ok(replace(SESSION, size=2)), stream(("log", first)), stream(("log", second)))
    assert [piece.content for piece in sessions.logs("a", LogOptions(follow=True))] == [b"a", b"b"]
    assert [line.partition("?")[0] for line in server.lines] == [
        "GET /api/v1/sessions/a",
        "GET /api/v1/sessions/s-1/log",
        "GET /api/v1/sessions/s-1/log",
    ]
