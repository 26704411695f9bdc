"""Errors as the client sees them."""

from __future__ import annotations

import json
from http import HTTPStatus

import pytest

from sokovan.api import errors
from sokovan.api.problems import STATUSES, problem_of, problem_response, status_of
from sokovan.domain.errors import (
    Conflict,
    IdempotencyConflict,
    IllegalTransition,
    InvalidName,
    InvalidSpec,
    ObjectNotFound,
    OutcomeUnknown,
    SokovanError,
    StoreUnavailable,
)
from sokovan.domain.problems import InvalidRequest, NameTaken, Problem
from sokovan.domain.records import DETAIL_MAX
from tests.unit.api.api_harness import ApiHarness


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ObjectNotFound(what="session", name="x"), 404),
        (InvalidName(what="queue", name="?"), 422),
        (InvalidSpec(what="session", field="size", value=0, problem="is too small"), 422),
        (Conflict("no"), 409),
        (errors.AmbiguousName("two"), 409),
        (IdempotencyConflict("other body"), 422),
        (IllegalTransition(machine="agent", state="alive", trigger="left", legal=[]), 409),
        (StoreUnavailable("away"), 503),
        (OutcomeUnknown("who knows"), 503),
        (errors.Unauthenticated(), 401),
        (errors.Forbidden("no"), 403),
        (errors.ForeignOrigin(header="Host", value="x"), 403),
        (errors.TooManyRequests("slow", wait_s=2), 429),
        (errors.StreamsFull("full", wait_s=2), 429),
        (errors.BodyTooLarge(limit=1), 413),
        (errors.UnsupportedMedia("no"), 415),
        (errors.LogGone("gone"), 410),
        (errors.NoSuchRoute("no"), 404),
        (errors.MethodNotAllowed(method="PUT", path="/", allowed=["GET"]), 405),
        (SokovanError("a defect"), 500),
    ],
)
def test_an_error_has_the_status_of_its_nearest_kind(error: SokovanError, status: int) -> None:
    assert status_of(error) == status


def test_every_error_of_the_api_has_a_status_of_its_own_choice() -> None:
    own = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    assert len(own) > 8
    for kind in own:
        found = next(STATUSES[one] for one in kind.__mro__ if one in STATUSES)
        assert found is not HTTPStatus.INTERNAL_SERVER_ERROR, kind


def test_a_problem_says_what_happened_and_what_to_do() -> None:
    problem = problem_of(ObjectNotFound(what="session", name="x"), "req-1")
    assert (problem.status, problem.code, problem.title, problem.request_id) == (404, "not-found", "Not Found", "req-1")
    assert problem.type == "urn:sokovan:error:not-found"
    assert "session 'x'" in problem.detail
    assert problem.hint == ObjectNotFound.hint


def test_what_was_not_raised_on_purpose_says_nothing_of_itself() -> None:
    problem = problem_of(KeyError("/root/secret.py"), "req-1")
    assert (problem.status, problem.code) == (500, "internal")
    assert "secret" not in json.dumps([problem.detail, problem.hint, problem.title])


def test_every_place_that_is_wrong_is_listed() -> None:
    problem = problem_of(InvalidRequest([Problem("size", "is 0"), Problem("groups/1/name", "is empty")]), "r")
    assert [(one.where, one.problem) for one in problem.problems] == [("size", "is 0"), ("groups/1/name", "is empty")]
    spec = problem_of(InvalidSpec(what="s", field="environment.X", value=1, problem="must be a text"), "r")
    assert [one.where for one in spec.problems] == ["environment/X"]


def test_a_name_that_is_taken_is_a_conflict() -> None:
    problem = problem_of(NameTaken([Problem("name", "a is taken")]), "r")
    assert (problem.status, problem.code, len(problem.problems)) == (409, "name-taken", 1)


def test_control_characters_and_endless_texts_do_not_pass() -> None:
    problem = problem_of(Conflict("a\x1b[31m\x00b\ud800\nc" + "x" * 10_000), "r")
    assert problem.detail.isprintable()
    assert len(problem.detail) <= DETAIL_MAX + 1
    assert problem_of(Conflict("a\nb"), "r").detail == "a b"
    odd = problem_of(InvalidRequest([Problem("query/\ud800", "\x00")]), "r")
    assert json.dumps([odd.problems[0].where, odd.problems[0].problem]).isascii()


def test_the_answer_is_problem_json_with_the_headers_of_its_status() -> None:
    response = problem_response(errors.TooManyRequests("slow", wait_s=1.2), "req-1")
    assert response.media_type == "application/problem+json"
    assert response.headers["retry-after"] == "2"
    assert json.loads(bytes(response.body))["code"] == "too-many-requests"
    assert problem_response(errors.Unauthenticated(), "r").headers["www-authenticate"].startswith("Bearer")
    refused = errors.MethodNotAllowed(method="PUT", path="/", allowed=["GET", "DELETE"])
    assert problem_response(refused, "r").headers["allow"] == "DELETE, GET"
    assert problem_response(StoreUnavailable("away"), "r").headers["retry-after"] == "1"


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_a_path_that_is_not_there_says_where_to_look(api: ApiHarness) -> None:
    answer = await api.get("/nothing%0Ahere")
    assert (answer.status_code, answer.json()["code"]) == (404, "no-such-route")
    assert "openapi.json" in answer.json()["hint"]
    assert answer.json()["detail"].isprintable()


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/queues/default", "DELETE, GET, PUT"),
        ("PUT", "/sessions", "GET, POST"),
        ("POST", "/sessions/x", "DELETE, GET"),
        ("OPTIONS", "/whoami", "GET"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_method_that_is_not_there_lists_all_that_are(
    api: ApiHarness, method: str, path: str, allowed: str
) -> None:
    answer = await api.call(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_plain_request_to_the_socket_finds_nothing(api: ApiHarness) -> None:
    assert (await api.get("/sessions/x/kernels/0/exec")).json()["code"] == "no-such-route"
