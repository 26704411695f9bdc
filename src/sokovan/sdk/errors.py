"""Errors of the client.

ClientProblem           base of every error that the SDK raises on purpose
├── ApiProblem          the server responded with a problem
│   ├── InvalidRequest  the request is invalid
│   ├── Unauthorized    the API key is missing or invalid
│   ├── NotFound        there is no such object, or the caller may not see it
│   ├── Refused         a permission, a limit or the object's state forbids it
│   └── ServerFailed    an internal error of the server
├── Unreachable         no response in time
├── UnexpectedAnswer    the response is not that of a Sokovan API of this version
├── NotLoggedIn         no API key is known for the server
├── InsecureAddress     the API key would be sent without encryption
├── InvalidSetting      a setting, or a settings file, is invalid
├── InvalidObjectName   a name that no object can have
├── InvalidSpecFile     a spec file is invalid
├── NeverReached        a session ended without reaching the awaited state
└── StillWaiting        timeout while waiting for a session
"""

from __future__ import annotations

from typing import ClassVar

from sokovan.wire.api.system import FieldProblem, ProblemView


class ClientProblem(Exception):
    """Base of every error of the SDK: a message, a code and a hint.

    `code` never changes once released; programs may depend on it.
    """

    code: str = "client-problem"
    hint: str = "try again; if it persists, report it with the message above"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        if hint:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint} [{self.code}]"


class ApiProblem(ClientProblem):
    """The server responded with a problem; `code` is the server's."""

    fallback: ClassVar[str] = "search the log of the server for the request id"

    def __init__(self, problem: ProblemView, *, retry_after_s: float | None = None) -> None:
        super().__init__(_sentence(problem), hint=problem.hint or self.fallback)
        self.code = problem.code
        self.status = problem.status
        self.problem = problem
        self.retry_after_s = retry_after_s

    @property
    def problems(self) -> list[FieldProblem]:
        """Problems of single fields, if the server named any."""
        return self.problem.problems


class InvalidRequest(ApiProblem):
    """The request is invalid; nothing was stored."""


class Unauthorized(ApiProblem):
    """The API key is missing or invalid."""

    fallback = "log in: sokovan context add NAME URL, or set SOKOVAN_TOKEN"


class NotFound(ApiProblem):
    """There is no such object, or the caller may not see it."""


class Refused(ApiProblem):
    """A permission, a limit or the state of the object forbids it."""


class ServerFailed(ApiProblem):
    """An internal error of the server."""


class Unreachable(ClientProblem):
    """The server did not respond in time."""

    code = "server-unreachable"
    hint = "check that the server runs (sokovan up) and that the address is right (sokovan config show --origin)"

    def __init__(self, message: str, *, sent: bool = True, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.sent = sent  # whether the request may have arrived


class UnexpectedAnswer(ClientProblem):
    """The response is not that of a Sokovan API of this version."""

    code = "unexpected-answer"
    hint = "check that the URL is that of a Sokovan server of this version (sokovan version)"


class NotLoggedIn(ClientProblem):
    """No API key is known for the server."""

    code = "not-logged-in"
    hint = "start a server with sokovan up, add one with sokovan context add NAME URL, or set SOKOVAN_TOKEN"


class InsecureAddress(ClientProblem):
    """The API key would be sent to another machine without encryption."""

    code = "insecure-address"
    hint = (
        "use https://, or a tunnel: ssh -L 7646:127.0.0.1:7646 HOST and http://127.0.0.1:7646; "
        "SOKOVAN_PLAIN_HTTP=allow sends it all the same"
    )


class InvalidSetting(ClientProblem):
    """A setting, or a settings file, is invalid."""

    code = "invalid-setting"
    hint = "correct the value named above; sokovan config show --origin shows where each value comes from"


class InvalidObjectName(ClientProblem):
    """A name that no object can have; nothing was sent."""

    code = "invalid-name"
    hint = "use 1 to 128 letters, digits and . _ - / : @ + starting with a letter or digit"


class InvalidSpecFile(ClientProblem):
    """A spec file is invalid; the message names file, line and column."""

    code = "invalid-spec"
    hint = "sokovan help spec lists the keys of a spec"


class NeverReached(ClientProblem):
    """A session ended without reaching the awaited state."""

    code = "never-reached"
    hint = "see why: sokovan session history NAME"


class AlreadyEnded(ClientProblem):
    """A session has ended, and what was asked for needs a running one."""

    code = "session-ended"
    hint = "its output is kept: sokovan logs NAME; start another: sokovan run"


class StillWaiting(ClientProblem):
    """Timeout while waiting for a session; the session itself continues."""

    code = "still-waiting"
    hint = "see why: sokovan why NAME; wait longer with --timeout, or end it with sokovan stop NAME"


_BY_STATUS: dict[int, type[ApiProblem]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Refused,
    404: NotFound,
    405: InvalidRequest,
    409: Refused,
    410: NotFound,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: Refused,
}


def api_problem(problem: ProblemView, *, retry_after_s: float | None = None) -> ApiProblem:
    """The error for a problem of the server, of the class for its HTTP status."""
    kind = _BY_STATUS.get(problem.status, ServerFailed if problem.status >= 500 else InvalidRequest)
    return kind(problem, retry_after_s=retry_after_s)


def _sentence(problem: ProblemView) -> str:
    sentence, found = problem.detail or problem.title, problem.problems
    if len(found) < 2:  # the detail has it already
        return sentence
    # The detail has them all in one long line; show one per line instead.
    sentence = sentence.partition(f" {found[0].where}: {found[0].problem}")[0]
    return "\n".join([sentence, *(f"  {line.where}: {line.problem}" for line in problem.problems)])
