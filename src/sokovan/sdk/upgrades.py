"""What it means when the server does not open a socket."""

from __future__ import annotations

from websockets.exceptions import InvalidStatus

from sokovan.sdk.core.answers import problem_of
from sokovan.sdk.errors import ClientProblem


def refusal(error: InvalidStatus) -> ClientProblem:
    """The problem that the server answered with instead."""
    headers = {name.lower(): value for name, value in error.response.headers.raw_items()}
    return problem_of(status=error.response.status_code, headers=headers, content=bytes(error.response.body or b""))
