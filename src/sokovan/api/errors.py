"""What the API itself refuses, beside what the domain does.

SokovanError
├── Unauthenticated       no key, or none that is known
├── Forbidden             a key that is known, and a thing that it may not do
│   └── ForeignOrigin     a Host or Origin that this server does not answer to
├── TooManyRequests       more than the limits allow
│   └── StreamsFull       more open streams than there may be
├── NoSuchRoute           a path that the API does not have
├── MethodNotAllowed      a path that the API has, with another method
├── BodyTooLarge          a request or message that is longer than is read
├── UnsupportedMedia      a body that is not JSON
├── LogGone               output that is no longer kept
├── ExecFailed            a further command in a kernel that could not be started
└── Conflict
    └── AmbiguousName     the beginning of more than one name
"""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.errors import Conflict, SokovanError, listed, quoted


class Unauthenticated(SokovanError):
    """There is no key, or none that is known here."""

    code = "unauthenticated"
    hint = "send `Authorization: Bearer TOKEN` with a key that is active; `sokovan key add` makes one"

    def __init__(self) -> None:
        # The same words in every case: a caller without a key learns nothing from them.
        super().__init__("this needs a key that is known here")


class Forbidden(SokovanError):
    """The key is known, but its user may not do this."""

    code = "forbidden"
    hint = "ask an administrator, or use a key of a user who may"


class ForeignOrigin(Forbidden):
    """A request for another host, or from a page of another."""

    code = "foreign-origin"
    hint = "call the server by a name it answers to; others are added with `allowed_hosts`"

    def __init__(self, *, header: str, value: str) -> None:
        super().__init__(f"this server does not answer to {header} {quoted(value)}")


class TooManyRequests(SokovanError):
    """More requests than the limits allow; `wait_s` says when to come back."""

    code = "too-many-requests"
    hint = "wait for as long as Retry-After says, then go on more slowly"

    def __init__(self, message: str, *, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class StreamsFull(TooManyRequests):
    """More open streams than there may be."""

    code = "too-many-streams"
    hint = "close streams that are no longer read, then try again"


class NoSuchRoute(SokovanError):
    """The API has no such path."""

    code = "no-such-route"
    hint = "see /api/v1/openapi.json for every route there is"


class MethodNotAllowed(SokovanError):
    """The path is there, but not for this method."""

    code = "method-not-allowed"
    hint = "the Allow header lists the methods of this path"

    def __init__(self, *, method: str, path: str, allowed: Sequence[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"{quoted(path)} takes {listed(self.allowed)}, not {quoted(method)}")


class BodyTooLarge(SokovanError):
    """The body is longer than is read."""

    code = "body-too-large"
    hint = "send less: files do not belong into a request"

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"the body is longer than {limit} bytes")


class UnsupportedMedia(SokovanError):
    """The body is not said to be JSON."""

    code = "unsupported-media-type"
    hint = "send JSON, with the header `Content-Type: application/json`"


class LogGone(SokovanError):
    """What a kernel said is no longer kept."""

    code = "log-gone"
    hint = "logs are kept on the machine for a while after the end; save what is needed later"


class ExecFailed(SokovanError):
    """A further command in a kernel could not be started."""

    code = "exec-failed"
    hint = "check the program's name: it must exist inside the kernel, and the kernel must run"


class AmbiguousName(Conflict):
    """The text is the beginning of more than one name."""

    code = "ambiguous-name"
    hint = "write more of the name, or the whole id"
