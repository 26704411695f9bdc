"""The gate of `sokovan open`: one ticket, one cookie, one origin."""

from __future__ import annotations

import pytest

from sokovan.cli.commands.serving.browser_gate import BrowserGate, Passed, unreachable

HOST = "web--s-1.localhost:4000"


def gate() -> BrowserGate:
    return BrowserGate(HOST, ticket="the-ticket", cookie="the-cookie", ends_s=60)


def head(target: str = "/", *fields: str, host: str = HOST, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", *fields, "", ""]).encode()


def status(answer: Passed | bytes) -> int:
    return 0 if isinstance(answer, Passed) else int(answer.split(b" ", 2)[1])


def test_the_ticket_is_exchanged_for_a_cookie_once() -> None:
    one = gate()
    answer = one.decide(head("/-/open?ticket=the-ticket"), 59)
    assert isinstance(answer, bytes)
    assert answer.startswith(b"HTTP/1.1 303 ")
    assert b"\r\nSet-Cookie: sokovan-open=the-cookie; HttpOnly; SameSite=Strict; Path=/\r\n" in answer
    assert b"\r\nLocation: /\r\n" in answer

    assert status(one.decide(head("/-/open?ticket=the-ticket"), 59)) == 403


def test_a_ticket_is_refused_when_it_is_late_or_wrong_and_a_wrong_one_uses_nothing_up() -> None:
    assert status(gate().decide(head("/-/open?ticket=the-ticket"), 60)) == 403
    one = gate()
    for target in ("/-/open", "/-/open?ticket=", "/-/open?ticket=other"):
        assert status(one.decide(head(target), 0)) == 403
    assert status(one.decide(head("/-/open?ticket=the-ticket", method="POST"), 0)) == 405
    assert status(one.decide(head("/-/open?ticket=the-ticket"), 0)) == 303


def test_with_the_cookie_a_request_goes_on_without_it() -> None:
    given = head("/tree?a=1", "Cookie: a=b; sokovan-open=the-cookie; c=d", "Accept: */*", "Connection: keep-alive")
    answer = gate().decide(given, 1_000)

    assert isinstance(answer, Passed)
    lines = answer.head.decode().split("\r\n")
    assert lines[:2] == ["GET /tree?a=1 HTTP/1.1", "Host: localhost:4000"]
    assert "Cookie: a=b; c=d" in lines
    assert "Connection: close" in lines
    assert b"the-cookie" not in answer.head
    assert answer.head.endswith(b"\r\n\r\n")


def test_a_program_sees_its_own_name_as_the_page_that_a_request_comes_from() -> None:
    cookie = "Cookie: sokovan-open=the-cookie"
    own = gate().decide(head("/files/a.png", cookie, f"Referer: http://{HOST}/lab?a=1"), 0)
    other = gate().decide(head("/files/a.png", cookie, "Referer: https://other.example/"), 0)

    assert isinstance(own, Passed)
    assert b"Referer: http://localhost:4000/lab?a=1\r\n" in own.head
    assert isinstance(other, Passed)
    assert b"referer" not in other.head.lower()


def test_an_upgrade_is_passed_on_with_the_origin_that_the_program_expects() -> None:
    fields = ("Cookie: sokovan-open=the-cookie", f"Origin: http://{HOST}", "Upgrade: websocket", "Connection: Upgrade")
    answer = gate().decide(head("/api/kernels", *fields), 0)

    assert isinstance(answer, Passed)
    lines = answer.head.decode().split("\r\n")
    assert {"Origin: http://localhost:4000", "Connection: Upgrade", "upgrade: websocket"} <= set(lines)
    assert not any(line.startswith("Cookie") for line in lines)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (head(), 403),
        (head("/", "Cookie: sokovan-open=other"), 403),
        (head("/", "Cookie: xsokovan-open=the-cookie"), 403),
        (head("/", "Cookie: sokovan-open=the-cookie", "Origin: http://evil.example"), 403),
        (head("/", "Cookie: sokovan-open=the-cookie", "Origin: null"), 403),
        (head("/", "Cookie: sokovan-open=the-cookie", host="127.0.0.1:4000"), 421),
        (head("/", "Cookie: sokovan-open=the-cookie", host="evil.example:4000"), 421),
        (head("/", "Cookie: sokovan-open=the-cookie", f"Host: {HOST}"), 421),
        (b"GET / HTTP/1.0\r\n\r\n", 400),
        (b"GET http://x/ HTTP/1.1\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (head("/", " folded: x"), 400),
        (head("/", "name : x"), 400),
        (head("/", "no colon"), 400),
        (head("/", "a: b\nc: d"), 400),
    ],
)
def test_other_requests_are_refused(given: bytes, expected: int) -> None:
    assert status(gate().decide(given, 0)) == expected


def test_an_application_that_is_not_reached_is_a_page_that_says_why_and_nothing_of_it_is_markup() -> None:
    answer = unreachable("agent 'vm' refuses: nothing listens on port 1 <script>")

    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"nothing listens on port 1 &lt;script&gt;." in answer
    assert b"<script>" not in answer
