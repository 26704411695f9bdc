"""The request log."""

from __future__ import annotations

import pytest

from sokovan.sdk.core import session_calls
from sokovan.sdk.errors import StillWaiting
from sokovan.sdk.request_log import VARIABLE, RequestLine
from tests.unit.sdk.fake_server import FakeClock

HEADERS = {"x-request-id": "req-7", "set-cookie": "secret"}


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> tuple[RequestLine, FakeClock]:
    """An enabled request log line and its clock."""
    monkeypatch.setenv(VARIABLE, "api")
    clock = FakeClock()
    return RequestLine(session_calls.get("ddp"), clock), clock


def test_a_line_has_the_request_and_its_outcome(
    line: tuple[RequestLine, FakeClock], capsys: pytest.CaptureFixture[str]
) -> None:
    line[1].now += 0.0123
    line[0].responded(200, HEADERS)
    assert capsys.readouterr() == ("", "GET /api/v1/sessions/ddp 200 12 ms req-7\n")


def test_a_failure_is_logged_by_its_class(
    line: tuple[RequestLine, FakeClock], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConnectionError), line[0]:
        raise ConnectionError("the key was sk-secret")
    assert capsys.readouterr().err == "GET /api/v1/sessions/ddp - 0 ms ConnectionError\n"


@pytest.mark.parametrize("end", [GeneratorExit(), StillWaiting("x")])
def test_leaving_a_stream_is_not_logged_as_a_failure(
    line: tuple[RequestLine, FakeClock], capsys: pytest.CaptureFixture[str], end: BaseException
) -> None:
    with pytest.raises(type(end)), line[0]:
        raise end
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("given", "shown"), [({}, "-"), ({"x-request-id": "a\x1b[2J"}, "-")])
def test_a_missing_or_unprintable_id_is_not_shown(
    line: tuple[RequestLine, FakeClock], capsys: pytest.CaptureFixture[str], given: dict[str, str], shown: str
) -> None:
    line[0].responded(404, given)
    assert capsys.readouterr().err == f"GET /api/v1/sessions/ddp 404 0 ms {shown}\n"


@pytest.mark.parametrize(("value", "enabled"), [("", False), ("1", False), ("0", False), ("1,api", True)])
def test_the_log_is_off_unless_enabled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str, *, enabled: bool
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    RequestLine(session_calls.get("ddp"), FakeClock()).responded(200, HEADERS)
    assert bool(capsys.readouterr().err) is enabled
