"""With which status a command ends."""

from __future__ import annotations

from sokovan.cli.problems import OurFailure

OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
LOGIN = 4
REFUSED = 5
WAITING = 6
UNREACHABLE = 7
OURS = 125
INTERRUPTED = 130

MEANINGS = {
    OK: "all went well",
    FAILED: "it failed",
    USAGE: "the command line, a file or a value cannot be taken as it is; nothing was done",
    NOT_FOUND: "there is no such object, or not for you",
    LOGIN: "the server does not know you: no key, or a wrong one",
    REFUSED: "a permission, a quota or the state of an object is in the way",
    WAITING: "it cannot be placed, or still waits at --timeout",
    UNREACHABLE: "the server cannot be reached",
    OURS: "run, exec and shell: sokovan itself failed; every other code is the command's own",
    INTERRUPTED: "Ctrl-C",
}

# By the code of an error, where that says more than the status it came with.
_BY_CODE = {
    "server-unreachable": UNREACHABLE,
    "not-logged-in": LOGIN,
    "still-waiting": WAITING,
    "never-fits": WAITING,
    "infeasible": WAITING,
    "invalid-setting": USAGE,
    "invalid-spec": USAGE,
    "invalid-name": USAGE,
    "invalid-input": USAGE,
    "usage": USAGE,
    "interrupted": INTERRUPTED,
}
_BY_HTTP_STATUS = {
    400: USAGE,
    401: LOGIN,
    403: REFUSED,
    404: NOT_FOUND,
    405: USAGE,
    409: REFUSED,
    410: NOT_FOUND,
    413: USAGE,
    415: USAGE,
    422: USAGE,
    429: REFUSED,
}


def exit_code_of(error: object) -> int:
    """The status for an error, by its code, or by the HTTP status that it came with."""
    if isinstance(error, OurFailure):
        return OURS
    code, status = getattr(error, "code", ""), getattr(error, "status", None)
    if code in _BY_CODE:
        return _BY_CODE[code]
    return _BY_HTTP_STATUS.get(status, FAILED) if isinstance(status, int) else FAILED
