"""What can go wrong for a client, in words a user can act on.

ClientProblem           base of every error that the SDK raises on purpose
├── ApiProblem          the server answered with a problem
│   ├── InvalidRequest  it cannot take the request as it is
│   ├── Unauthorized    it does not know who asks
│   ├── NotFound        there is no such object, or not for the one who asks
│   ├── Refused         a permission, a limit or the object's state is in the way
│   └── ServerFailed    it failed itself
├── Unreachable         nobody answered in time
├── UnexpectedAnswer    somebody answered, but not a Sokovan API of our version
├── NotLoggedIn         no key is known for the server
├── InvalidSetting      a setting, or a file of settings, cannot be taken as it is
├── InvalidName         a name that no object can have
├── InvalidSpec         a spec file cannot be taken as it is
├── NeverReached        a session ended before it came to the state that was waited for
└── StillWaiting        time ran out while waiting for a session
"""

from __future__ import annotations

from typing import ClassVar

from sokovan.wire.api.system import FieldProblem, ProblemView


class ClientProblem(Exception):
    """Base of every error of the SDK: what happened, to what, what next.

    `code` never changes once released; programs key on it.
    """

    code: str = "client-problem"
    hint: str = "try again; if it stays, report it with the message above"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        if hint:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint} [{self.code}]"


class ApiProblem(ClientProblem):
    """The server answered with a problem; `code` is the server's."""

    fallback: ClassVar[str] = "see the log of the server under the request id, if there is one"

    def __init__(self, problem: ProblemView, *, retry_after_s: float | None = None) -> None:
        super().__init__(_sentence(problem), hint=problem.hint or self.fallback)
        self.code = problem.code
        self.status = problem.status
        self.problem = problem
        self.retry_after_s = retry_after_s

    @property
    def problems(self) -> list[FieldProblem]:
        """What is wrong with which field, where the server said so."""
        return self.problem.problems


class InvalidRequest(ApiProblem):
    """The server cannot take the request as it is; nothing was stored."""


class Unauthorized(ApiProblem):
    """The server does not know who asks."""

    fallback = "log in: sokovan context add NAME URL, or set SOKOVAN_TOKEN"


class NotFound(ApiProblem):
    """There is no such object, or not for the one who asks."""


class Refused(ApiProblem):
    """A permission, a limit or the state of the object is in the way."""


class ServerFailed(ApiProblem):
    """The server failed itself."""


class Unreachable(ClientProblem):
    """Nobody answered in time at the address of the server."""

    code = "server-unreachable"
    hint = "check that the server runs (sokovan up) and that the address is right (sokovan config show --origin)"

    def __init__(self, message: str, *, sent: bool = True, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.sent = sent  # whether the request may have arrived


class UnexpectedAnswer(ClientProblem):
    """Somebody answered, but not as a Sokovan API of our version would."""

    code = "unexpected-answer"
    hint = "check that the address is that of a Sokovan server of this version (sokovan version)"


class NotLoggedIn(ClientProblem):
    """No key is known for the server."""

    code = "not-logged-in"
    hint = "start a server with sokovan up, add one with sokovan context add NAME URL, or set SOKOVAN_TOKEN"


class InvalidSetting(ClientProblem):
    """A setting, or a file of settings, cannot be taken as it is."""

    code = "invalid-setting"
    hint = "mend the value named above; sokovan config show --origin tells where each value comes from"


class InvalidObjectName(ClientProblem):
    """A name that no object can have; nothing was sent."""

    code = "invalid-name"
    hint = "use 1 to 128 letters, digits and . _ - / : @ + beginning with a letter or digit"


class InvalidSpecFile(ClientProblem):
    """A spec file cannot be taken as it is; says file, line and column."""

    code = "invalid-spec"
    hint = "sokovan help spec lists the keys of a spec"


class NeverReached(ClientProblem):
    """A session ended before it came to the state that was waited for."""

    code = "never-reached"
    hint = "see why: sokovan session history NAME"


class StillWaiting(ClientProblem):
    """Time ran out while waiting for a session; the session goes on."""

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
    """The error for a problem of the server, of the class that its status names."""
    kind = _BY_STATUS.get(problem.status, ServerFailed if problem.status >= 500 else InvalidRequest)
    return kind(problem, retry_after_s=retry_after_s)


def _sentence(problem: ProblemView) -> str:
    told, found = problem.detail or problem.title, problem.problems
    if len(found) < 2:  # the detail says it already
        return told
    # The detail says them all in one line, which nobody likes to read.
    told = told.partition(f" {found[0].where}: {found[0].problem}")[0]
    return "\n".join([told, *(f"  {line.where}: {line.problem}" for line in problem.problems)])
