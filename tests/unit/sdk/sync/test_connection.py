"""The connection of the sync client."""

from __future__ import annotations

import httpx2
import pytest

from sokovan.sdk.core import session_calls
from sokovan.sdk.core.streams.followers import SessionFollower
from sokovan.sdk.errors import NotFound, Refused, ServerFailed, StillWaiting, Unreachable
from sokovan.sdk.sync.connection import Connection
from sokovan.wire.api.sessions import SessionBody
from tests.unit.sdk.fake_server import (
    ENDPOINT,
    CannedResponse,
    FakeClock,
    FakeServer,
    HandlerTransport,
    ok,
    problem,
    stream,
)
from tests.unit.sdk.views import SESSION, ended, pending, session

REFUSED = httpx2.ConnectError("refused")


def connected(*responses: CannedResponse) -> tuple[Connection, FakeServer, FakeClock]:
    """A connection to a server that gives these responses."""
    server, clock = FakeServer(*responses), FakeClock()
    return Connection(ENDPOINT, transport=server.transport(), environment=clock), server, clock


def test_a_call_becomes_a_request_with_the_key() -> None:
    connection, server, _ = connected(ok(SESSION))
    assert connection.send(session_calls.get("ddp")) == SESSION
    assert server.lines == ["GET /api/v1/sessions/ddp"]
    assert server.requests[0].headers["authorization"] == "Bearer sk-AK.secret"


def test_a_submission_is_repeated_with_the_same_key_until_it_arrives() -> None:
    lost = httpx2.ReadError("reset")
    connection, server, clock = connected(lost, problem(503, "store-unavailable"), ok(SESSION, status=200))
    assert connection.send(session_calls.submit(SessionBody(command=["x"]), key="k1")) == SESSION
    assert [one.headers["idempotency-key"] for one in server.requests] == ["k1"] * 3
    assert clock.waits == [0.1, 0.2]


def test_a_request_that_may_have_arrived_is_not_repeated_unless_idempotent() -> None:
    connection, server, _ = connected(httpx2.ReadError("reset"))
    with pytest.raises(Unreachable):
        connection.send(session_calls.cancel("a"))
    assert len(server.requests) == 1


def test_a_request_that_was_never_sent_is_always_repeated() -> None:
    connection, server, _ = connected(REFUSED, ok(SESSION))
    connection.send(session_calls.cancel("a"))
    assert len(server.requests) == 2


def test_the_server_says_how_long_to_wait() -> None:
    connection, _, clock = connected(problem(429, "too-many-requests", headers={"Retry-After": "3"}), ok(SESSION))
    connection.send(session_calls.get("a"))
    assert clock.waits == [3]


def test_patience_is_bounded() -> None:
    connection, server, clock = connected(*[REFUSED] * 9)
    with pytest.raises(Unreachable, match=r"sokovan\.test cannot be reached: refused"):
        connection.send(session_calls.get("a"))
    assert len(server.requests) == 4
    assert sum(clock.waits) < 1


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (409, Refused), (500, ServerFailed)])
def test_a_problem_is_raised_at_once(status: int, kind: type[Exception]) -> None:
    connection, server, _ = connected(problem(status, "code"))
    with pytest.raises(kind):
        connection.send(session_calls.get("a"))
    assert len(server.requests) == 1


def test_a_stream_is_followed_over_a_broken_connection() -> None:
    first = stream(("session", pending()), ": alive\n\n")
    second = stream(("session", pending()), ("session", session()))
    third = stream(("session", session()), ("session", ended()))
    connection, server, clock = connected(first, httpx2.ReadError("gone"), REFUSED, second, third)
    seen = [view.status for view in connection.follow(SessionFollower("ddp"))]
    assert seen == ["pending", "running", "terminated"]
    assert len(server.requests) == 5
    assert clock.waits == [0.2, 0.4, 0.8, 0.2]


def test_a_problem_ends_a_stream() -> None:
    connection, _, _ = connected(problem(404, "not-found"))
    with pytest.raises(NotFound):
        list(connection.follow(SessionFollower("ddp")))


def test_a_stream_is_given_up_after_a_minute_of_nothing() -> None:
    connection, _, clock = connected(*[REFUSED] * 100)
    with pytest.raises(Unreachable):
        list(connection.follow(SessionFollower("ddp")))
    assert 50 < clock.now <= 60


def test_a_deadline_ends_a_stream() -> None:
    connection, _, clock = connected(*[stream(("session", pending()))] * 20)
    with pytest.raises(StillWaiting):
        list(connection.follow(SessionFollower("ddp"), timeout_s=2))
    assert 2 <= clock.now < 5


def test_a_stream_is_reopened_when_a_read_could_pass_the_deadline() -> None:
    clock = FakeClock()
    patience: list[float] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        patience.append(request.extensions["timeout"]["read"])
        clock.now += 30
        return stream(("session", pending()), ": alive\n\n")

    connection = Connection(ENDPOINT, transport=HandlerTransport(respond), environment=clock)
    with pytest.raises(StillWaiting):
        list(connection.follow(SessionFollower("ddp"), timeout_s=60))
    assert patience[0] == 45
    assert patience[1] == pytest.approx(30, abs=1)


def test_every_attempt_is_in_the_request_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOKOVAN_DEBUG", "api")
    lost, done = httpx2.ReadError("reset"), ok(SESSION)
    done.headers["x-request-id"] = "req-1"
    connection, _, _ = connected(lost, problem(503, "store-unavailable"), done, stream(("session", ended())))
    connection.send(session_calls.submit(SessionBody(command=["secret"]), key="secret"))
    list(connection.follow(SessionFollower("ddp")))
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == (
        "",
        [
            "POST /api/v1/sessions - 0 ms ReadError",
            "POST /api/v1/sessions 503 0 ms -",
            "POST /api/v1/sessions 200 0 ms req-1",
            "GET /api/v1/sessions/ddp/events 200 0 ms -",
        ],
    )
