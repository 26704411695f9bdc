"""Errors of the command line itself."""

from __future__ import annotations

from sokovan.cli.errors import ClientFailure, usage_error
from sokovan.sdk.errors import NotLoggedIn


def test_a_client_failure_keeps_the_message_of_its_cause() -> None:
    cause = NotLoggedIn("no key")
    ours = ClientFailure(cause)
    assert (ours.message, ours.code, ours.hint) == ("no key", "not-logged-in", cause.hint)


def test_an_error_has_code_message_and_hint() -> None:
    problem = usage_error("odd", hint="fix it")
    assert (str(problem), problem.message, problem.code, problem.hint) == ("odd", "odd", "usage", "fix it")
