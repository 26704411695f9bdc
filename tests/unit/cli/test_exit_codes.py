"""Exit codes and their meaning."""

from __future__ import annotations

import pytest

from sokovan.cli.errors import ClientFailure, CommandError
from sokovan.cli.exit_codes import MEANINGS, exit_code_of
from sokovan.sdk import errors
from sokovan.sdk.errors import api_problem
from sokovan.wire.api.system import ProblemView


def message(status: int) -> errors.ApiProblem:
    """A problem of the server."""
    return api_problem(ProblemView(type="", title="", status=status, detail="", code="some-code"))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (message(401), 4),
        (message(403), 5),
        (message(404), 3),
        (message(409), 5),
        (message(410), 3),
        (message(413), 2),
        (message(422), 2),
        (message(429), 5),
        (message(500), 1),
        (message(503), 1),
        (errors.Unreachable("x"), 7),
        (CommandError("x", code="manager-unreachable", hint=""), 7),
        (errors.NotLoggedIn("x"), 4),
        (errors.StillWaiting("x"), 6),
        (errors.NeverReached("x"), 1),
        (errors.InvalidSetting("x"), 2),
        (errors.InvalidSpecFile("x"), 2),
        (errors.InvalidObjectName("x"), 2),
        (errors.UnexpectedAnswer("x"), 1),
        (ClientFailure(errors.Unreachable("x")), 125),
        (ClientFailure(errors.InvalidSpecFile("agent a1 refuses: no 'x' [program-not-found]")), 127),
        (CommandError("x", code="usage", hint=""), 2),
        (ValueError("x"), 1),
    ],
)
def test_every_error_has_its_status(error: Exception, status: int) -> None:
    assert exit_code_of(error) == status
    assert status in MEANINGS
