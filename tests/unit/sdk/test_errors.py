"""Errors of the client."""

from __future__ import annotations

import pytest

from sokovan.sdk import errors
from sokovan.sdk.errors import ApiProblem, ClientProblem, Unauthorized, api_problem
from sokovan.wire.api.system import FieldProblem, ProblemView


def kinds() -> list[type[ClientProblem]]:
    """Every error of the SDK that is not a problem of the server."""
    every = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ClientProblem)]
    return [one for one in every if not issubclass(one, ApiProblem) and one is not ClientProblem]


@pytest.mark.parametrize("kind", kinds())
def test_every_error_has_a_code_of_its_own_and_a_hint(kind: type[ClientProblem]) -> None:
    assert kind.code != ClientProblem.code
    assert kind.hint != ClientProblem.hint
    assert str(kind("what happened")) == f"what happened\n  hint: {kind.hint} [{kind.code}]"


def test_codes_are_different() -> None:
    codes = [kind.code for kind in kinds()]
    assert len(set(codes)) == len(codes)


def test_a_hint_for_the_case_wins() -> None:
    assert errors.Unreachable("x", hint="do this").hint == "do this"


def test_a_problem_without_a_hint_gets_that_of_its_kind() -> None:
    found = api_problem(ProblemView(type="", title="Unauthorized", status=401, detail="", code="unauthenticated"))
    assert isinstance(found, Unauthorized)
    assert (found.message, found.hint) == ("Unauthorized", Unauthorized.fallback)


def test_each_of_several_problems_is_shown_once() -> None:
    problems = [FieldProblem(where="size", problem="is 0"), FieldProblem(where="queue", problem="is none")]
    detail = "the request is invalid: size: is 0; queue: is none"
    view = ProblemView(type="", title="T", status=422, detail=detail, code="c", problems=problems)
    assert api_problem(view).message == "the request is invalid:\n  size: is 0\n  queue: is none"
