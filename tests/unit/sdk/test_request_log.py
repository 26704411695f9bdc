"""A line for every request."""

from __future__ import annotations

import pytest

from sokovan.sdk.core import session_calls
from sokovan.sdk.errors import StillWaiting
from sokovan.sdk.request_log import VARIABLE, RequestLine
from tests.unit.sdk.toy_server import StillClock

HEADERS = {"x-request-id": "req-7", "set-cookie": "secret"}


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> tuple[RequestLine, StillClock]:
    """A request that somebody wants to see, and the time it takes."""
    monkeypatch.setenv(VARIABLE, "api")
    clock = StillClock()
    return RequestLine(session_calls.get("ddp"), clock), clock


def test_it_says_what_was_asked_and_how_it_went(
    line: tuple[RequestLine, StillClock], capsys: pytest.CaptureFixture[str]
) -> None:
    line[1].now += 0.0123
    line[0].responded(200, HEADERS)
    assert capsys.readouterr() == ("", "GET /api/v1/sessions/ddp 200 12 ms req-7\n")


def test_a_failure_is_told_by_its_kind(
    line: tuple[RequestLine, StillClock], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConnectionError), line[0]:
        raise ConnectionError("the key was sk-secret")
    assert capsys.readouterr().err == "GET /api/v1/sessions/ddp - 0 ms ConnectionError\n"


@pytest.mark.parametrize("end", [GeneratorExit(), StillWaiting("x")])
def test_who_has_enough_is_no_failure(
    line: tuple[RequestLine, StillClock], capsys: pytest.CaptureFixture[str], end: BaseException
) -> None:
    with pytest.raises(type(end)), line[0]:
        raise end
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("given", "told"), [({}, "-"), ({"x-request-id": "a\x1b[2J"}, "-")])
def test_an_id_that_is_none_is_not_printed(
    line: tuple[RequestLine, StillClock], capsys: pytest.CaptureFixture[str], given: dict[str, str], told: str
) -> None:
    line[0].responded(404, given)
    assert capsys.readouterr().err == f"GET /api/v1/sessions/ddp 404 0 ms {told}\n"


@pytest.mark.parametrize(("value", "wanted"), [("", False), ("1", False), ("0", False), ("1,api", True)])
def test_only_who_asks_for_lines_gets_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str, *, wanted: bool
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    RequestLine(session_calls.get("ddp"), StillClock()).responded(200, HEADERS)
    assert bool(capsys.readouterr().err) is wanted
