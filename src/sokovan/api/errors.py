"""The errors of the API, in addition to those of the domain.

SokovanError
├── Unauthenticated       no API key, or an unknown one
├── Forbidden             the user of the key may not do this
│   └── ForeignOrigin     a Host or Origin header that names another host
├── TooManyRequests       the request rate exceeds the limit
│   └── StreamsFull       too many open streams
├── NoSuchRoute           a path that does not exist
├── MethodNotAllowed      a path that does not support the method
├── BodyTooLarge          a request or message that exceeds the size limit
├── UnsupportedMedia      a body that is not JSON
├── LogGone               output that has been deleted
├── ExecFailed            a command that could not be started in a kernel
├── PortUnreachable       a port of a kernel that could not be connected to
├── ModelFailed           a model that gave no answer, or broke it off
└── Conflict
    ├── AmbiguousName     a prefix of more than one name
    ├── ArrayNamed        the name of an array, where one session is required
    └── ReplicaNamed      a replica of a deployment, which no request submits
"""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.errors import Conflict, SokovanError, listed, quoted


class Unauthenticated(SokovanError):
    """The request has no API key, or an unknown one."""

    code = "unauthenticated"
    hint = (
        "ask an administrator for a key (`sokovan key add USER` prints its token once), then store it with "
        "`sokovan context add NAME URL`, or set SOKOVAN_TOKEN; HTTP clients send `Authorization: Bearer TOKEN`"
    )

    def __init__(self) -> None:
        # The same message in every case, so that an unauthenticated caller learns nothing from it.
        super().__init__("a valid API key is required")


class Forbidden(SokovanError):
    """The user of the key may not do this."""

    code = "forbidden"
    hint = "ask an administrator, or use the key of a user who has permission"


class ForeignOrigin(Forbidden):
    """The Host or Origin header names another host."""

    code = "foreign-origin"
    hint = "use a host name that the server accepts; `allowed_hosts` adds more"

    def __init__(self, *, header: str, value: str) -> None:
        super().__init__(f"this server does not serve {header} {quoted(value)}")


class TooManyRequests(SokovanError):
    """The request rate exceeds the limit; retry after `wait_s`."""

    code = "too-many-requests"
    hint = "wait as long as Retry-After says, then send requests more slowly"

    def __init__(self, message: str, *, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class StreamsFull(TooManyRequests):
    """The number of open streams exceeds the limit."""

    code = "too-many-streams"
    hint = "close unused streams, then retry"


class NoSuchRoute(SokovanError):
    """The API has no such path."""

    code = "no-such-route"
    hint = "see /api/v1/openapi.json for all routes"


class MethodNotAllowed(SokovanError):
    """The path does not support this method."""

    code = "method-not-allowed"
    hint = "the Allow header lists the methods of this path"

    def __init__(self, *, method: str, path: str, allowed: Sequence[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"{quoted(path)} takes {listed(self.allowed)}, not {quoted(method)}")


class BodyTooLarge(SokovanError):
    """The request body exceeds the size limit."""

    code = "body-too-large"
    hint = "reduce the request; files do not belong in a request"

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"the body is longer than {limit} bytes")


class UnsupportedMedia(SokovanError):
    """The Content-Type of the body is not JSON."""

    code = "unsupported-media-type"
    hint = "send JSON, with the header `Content-Type: application/json`"


class LogGone(SokovanError):
    """The output of the kernel has been deleted."""

    code = "log-gone"
    hint = "logs are kept on the agent for a limited time after the end; save them earlier"


class ModelFailed(SokovanError):
    """The gateway or the engine behind it gave no answer, or broke it off."""

    code = "model-failed"
    hint = "see sokovan deployment why NAME"


class ExecFailed(SokovanError):
    """A command could not be started in the kernel."""

    code = "exec-failed"
    hint = "check that the program exists inside the kernel and that the kernel is running"


class PortUnreachable(SokovanError):
    """The agent could not connect to the port of the kernel."""

    code = "port-unreachable"
    hint = "the program in the session must listen on 127.0.0.1 and the port in SOKOVAN_PORT_NAME"


class AmbiguousName(Conflict):
    """The text is a prefix of more than one name."""

    code = "ambiguous-name"
    hint = "give more of the name, or the full id"


class ArrayNamed(Conflict):
    """The reference is that of an array, where one session is required."""

    code = "array-named"
    hint = "name one of its sessions, as NAME[0]; `sokovan ps --array NAME` lists them"

    def __init__(self, *, name: str, size: int) -> None:
        super().__init__(f"{quoted(name)} is an array of {size} sessions")


class ReplicaNamed(Conflict):
    """The session is a replica of a deployment, which no request for a session makes."""

    code = "replica-named"

    def __init__(self, *, name: str, deployment: str) -> None:
        hint = f"see the deployment: sokovan deployment show {deployment}"
        super().__init__(f"session {quoted(name)} is a replica of a deployment", hint=hint)
