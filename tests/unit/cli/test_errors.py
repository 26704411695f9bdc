"""What can go wrong with a command line itself."""

from __future__ import annotations

from sokovan.cli.errors import ClientFailure, usage_error
from sokovan.sdk.errors import NotLoggedIn


def test_a_failure_of_ours_keeps_the_words_of_its_cause() -> None:
    cause = NotLoggedIn("no key")
    ours = ClientFailure(cause)
    assert (ours.message, ours.code, ours.hint) == ("no key", "not-logged-in", cause.hint)


def test_a_problem_has_what_every_error_has() -> None:
    problem = usage_error("odd", hint="mend it")
    assert (str(problem), problem.message, problem.code, problem.hint) == ("odd", "odd", "usage", "mend it")
