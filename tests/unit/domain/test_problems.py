"""Validation problems of a request, collected and located by path."""

from __future__ import annotations

import pytest

from sokovan.domain.commands import require_environment
from sokovan.domain.errors import InvalidName, InvalidSlots
from sokovan.domain.ids import checked_name
from sokovan.domain.problems import (
    LISTED_MAX,
    InvalidRequest,
    Problem,
    problem_text,
    problems_of,
)


def test_an_error_lists_every_problem_with_its_path() -> None:
    error = InvalidRequest([Problem("size", "0 kernels"), Problem("mounts/0/target", "is a place of the system")])

    assert error.code == "invalid-request"
    assert "size: 0 kernels; mounts/0/target: is a place of the system" in error.message
    assert error.hint in str(error)


def test_a_flood_of_problems_is_cut_in_the_message_and_kept_in_the_error() -> None:
    error = InvalidRequest(Problem(f"labels/{n}", "is bad") for n in range(100))

    assert len(error.problems) == 100
    assert error.message.count("is bad") == LISTED_MAX
    assert error.message.endswith("and 80 more")


def test_a_check_that_agrees_has_no_problem() -> None:
    assert list(problems_of("name", checked_name, "train", what="session")) == []


def test_a_check_that_objects_is_a_problem_at_its_place() -> None:
    (problem,) = problems_of("name", checked_name, "a b", what="session")

    assert problem.where == "name"
    assert "'a b' is not a name for a session" in problem.problem


def test_a_field_inside_a_value_makes_the_path_longer() -> None:
    (problem,) = problems_of("environment", require_environment, {"A": "\0"}, what="kernel")

    assert problem.where == "environment/A"


def test_what_is_no_input_error_is_not_swallowed() -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(problems_of("x", broken))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidSlots(given="cpu=x", problem="not a number", hint="write cpu=1"), "'cpu=x': not a number; write cpu=1"),
        (InvalidName(what="queue", name="a b"), "'a b' is not a name for a queue; use 1 to 128"),
    ],
)
def test_the_text_of_an_error_keeps_its_hint(error: InvalidSlots | InvalidName, said: str) -> None:
    assert problem_text(error).startswith(said)
