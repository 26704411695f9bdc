"""Request log of the client: one line on standard error per request.

    SOKOVAN_DEBUG=api sokovan ps
    GET /api/v1/sessions 200 12 ms req-01j...

Keys, bodies and query parameters are left out: they may be secret.
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
# The variable may hold several, separated by commas: SOKOVAN_DEBUG=1,api
LINES = "api"
_ID_MAX = 64


class RequestLine:
    """Logs one request with its status and duration, if the log is enabled."""

    def __init__(self, call: Call[Any], environment: ClientEnvironment) -> None:
        self._request, self._environment = f"{call.method} {call.path}", environment
        self._enabled = LINES in os.environ.get(VARIABLE, "").split(",")
        self._begun_s = environment.now_s()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A ClientProblem is logged by its status; a caller that leaves a stream is no failure.
        if isinstance(error, Exception) and not isinstance(error, ClientProblem):
            self._write("-", type(error.__cause__ or error).__name__)

    def responded(self, status: int, headers: Mapping[str, str]) -> None:
        """Log the status of the response; a stream continues after it."""
        self._write(str(status), headers.get("x-request-id", "-"))

    def _write(self, status: str, note: str) -> None:
        if self._enabled:
            spent_ms = (self._environment.now_s() - self._begun_s) * 1000
            note = note[:_ID_MAX] if note.isprintable() else "-"
            sys.stderr.write(f"{self._request} {status} {spent_ms:.0f} ms {note}\n")
            sys.stderr.flush()
