"""With which status a command ends."""

from __future__ import annotations

from sokovan.cli.errors import ClientFailure

OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
LOGIN = 4
REFUSED = 5
WAITING = 6
UNREACHABLE = 7
CLIENT_FAILURE = 125
NO_PROGRAM = 127
INTERRUPTED = 130

MEANINGS = {
    OK: "all went well",
    FAILED: "it failed",
    USAGE: "the command line, a file or a value cannot be taken as it is; nothing was done",
    NOT_FOUND: "there is no such object, or not for you",
    LOGIN: "the server does not know you: no key, or a wrong one",
    REFUSED: "a permission, a quota, a name that is taken or the state of an object is in the way",
    WAITING: "it cannot be placed, still waits at --timeout, or waited for longer than its pool allows",
    UNREACHABLE: "the server cannot be reached",
    CLIENT_FAILURE: "run, exec and shell: sokovan itself failed; every other code is the command's own",
    NO_PROGRAM: "run, exec and shell: there is no such program where the command would run",
    INTERRUPTED: "Ctrl-C",
}

# How an agent says so, at the end of its own words.
PROGRAM_NOT_FOUND = "program-not-found"
NOT_FOUND_MARK = f"[{PROGRAM_NOT_FOUND}]"

# By the code of an error, where that says more than the status it came with.
_BY_CODE = {
    "server-unreachable": UNREACHABLE,
    "not-logged-in": LOGIN,
    "still-waiting": WAITING,
    "never-fits": WAITING,
    "infeasible": WAITING,
    "pending-timeout": WAITING,
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
    if isinstance(error, ClientFailure):
        return NO_PROGRAM if error.code == PROGRAM_NOT_FOUND or NOT_FOUND_MARK in error.message else CLIENT_FAILURE
    code, status = getattr(error, "code", ""), getattr(error, "status", None)
    if code in _BY_CODE:
        return _BY_CODE[code]
    return _BY_HTTP_STATUS.get(status, FAILED) if isinstance(status, int) else FAILED
