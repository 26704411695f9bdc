"""Decoding responses of the server."""

from __future__ import annotations

import msgspec
import pytest

from sokovan.sdk.core import session_calls
from sokovan.sdk.core.calls import Nothing
from sokovan.sdk.core.catalog_calls import QUEUES
from sokovan.sdk.core.responses import interpret, problem_of, retry_after_s
from sokovan.sdk.errors import (
    ApiProblem,
    InvalidRequest,
    NotFound,
    Refused,
    ServerFailed,
    Unauthorized,
    UnexpectedAnswer,
)
from tests.unit.sdk.views import SESSION


def problem_with(status: int, code: str = "some-code") -> ApiProblem:
    """The error for a problem of this status."""
    body = {"type": "urn:x", "title": "T", "status": status, "detail": "why", "code": code, "hint": "do this"}
    headers = {"content-type": "application/problem+json; charset=utf-8"}
    found = problem_of(status=status, headers=headers, content=msgspec.json.encode(body))
    assert isinstance(found, ApiProblem)
    return found


def test_a_good_answer_is_its_object() -> None:
    content = msgspec.json.encode(SESSION)
    assert interpret(session_calls.get("a"), status=200, headers={}, content=content) == SESSION


def test_a_field_of_a_later_version_is_passed_over() -> None:
    later = {**msgspec.to_builtins(SESSION), "mood": "fine"}
    assert interpret(session_calls.get("a"), status=201, headers={}, content=msgspec.json.encode(later)) == SESSION


def test_an_answer_without_a_body_is_nothing() -> None:
    assert interpret(QUEUES.delete("a"), status=204, headers={}, content=b"") == Nothing()


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"id": 7}', b"\xff"])
def test_a_response_of_another_server_is_recognized(content: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        interpret(session_calls.get("a"), status=200, headers={}, content=content)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (401, Unauthorized),
        (403, Refused),
        (404, NotFound),
        (409, Refused),
        (410, NotFound),
        (413, InvalidRequest),
        (418, InvalidRequest),
        (422, InvalidRequest),
        (429, Refused),
        (500, ServerFailed),
        (503, ServerFailed),
    ],
)
def test_a_problem_has_the_class_of_its_status_and_the_code_of_the_server(status: int, kind: type[ApiProblem]) -> None:
    found = problem_with(status)
    assert type(found) is kind
    assert (found.code, found.status, found.message, found.hint) == ("some-code", status, "why", "do this")


def test_several_problems_of_fields_are_listed() -> None:
    fields = [{"where": "body/size", "problem": "is 0"}, {"where": "body/name", "problem": "is empty"}]
    body = {"type": "", "title": "T", "status": 422, "detail": "bad", "code": "invalid-request", "problems": fields}
    found = problem_of(
        status=422, headers={"content-type": "application/problem+json"}, content=msgspec.json.encode(body)
    )
    assert str(found).splitlines()[:3] == ["bad", "  body/size: is 0", "  body/name: is empty"]
    assert isinstance(found, InvalidRequest)
    assert [one.where for one in found.problems] == ["body/size", "body/name"]


def test_a_failure_of_something_in_between_is_quoted_and_cut() -> None:
    found = problem_of(status=502, headers={"content-type": "text/html"}, content=b"<h1>Bad\ngateway</h1>" + b"x" * 999)
    assert isinstance(found, UnexpectedAnswer)
    assert found.message.startswith("the server responded with 502 and no reason: <h1>Bad gateway</h1>")
    assert len(found.message) < 300


@pytest.mark.parametrize(("value", "seconds"), [("3", 3.0), ("", None), ("soon", None), ("-1", None), ("9" * 9, None)])
def test_the_wait_that_a_server_asks_for_is_read(value: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": value}) == seconds
