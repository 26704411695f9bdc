"""A line for every request, for those who want to see what the client asks.

    SOKOVAN_DEBUG=api sokovan ps
    GET /api/v1/sessions 200 12 ms req-01j...

Never a key, never a body, and no query, which may hold what only its user should read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from sokovan.sdk.core.calls import Call
from sokovan.sdk.environment import ClientEnvironment
from sokovan.sdk.errors import ClientProblem

VARIABLE = "SOKOVAN_DEBUG"
# Several may be said at once: SOKOVAN_DEBUG=1,api
LINES = "api"
_ID_MAX = 64


class RequestLine:
    """One request: tells on standard error how it went, if anybody wants to know."""

    def __init__(self, call: Call[Any], environment: ClientEnvironment) -> None:
        self._asked, self._environment = f"{call.method} {call.path}", environment
        self._wanted = LINES in os.environ.get(VARIABLE, "").split(",")
        self._begun_s = environment.now_s()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the server said is told already, and who has enough of a stream is no failure.
        if isinstance(error, Exception) and not isinstance(error, ClientProblem):
            self._tell("-", type(error).__name__)

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """The server answered; a stream goes on after that."""
        self._tell(str(status), headers.get("x-request-id", "-"))

    def _tell(self, status: str, told: str) -> None:
        if self._wanted:
            spent_ms = (self._environment.now_s() - self._begun_s) * 1000
            told = told[:_ID_MAX] if told.isprintable() else "-"
            sys.stderr.write(f"{self._asked} {status} {spent_ms:.0f} ms {told}\n")
            sys.stderr.flush()
