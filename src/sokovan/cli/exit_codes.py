"""Exit codes of the command line, and the errors that lead to them."""

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
    OK: "success",
    FAILED: "failure",
    USAGE: "usage error: invalid command line, file or value; nothing was done",
    NOT_FOUND: "the object does not exist, or you may not see it",
    LOGIN: "authentication failed: no API key, or an invalid one",
    REFUSED: "refused: missing permission, quota exceeded, name taken, or conflicting state",
    WAITING: "unschedulable, still pending at --timeout, or pending longer than its scaling group allows",
    UNREACHABLE: "the server is unreachable",
    CLIENT_FAILURE: "run, exec, shell: sokovan itself failed; any other code is that of your command",
    NO_PROGRAM: "run, exec, shell: program not found",
    INTERRUPTED: "interrupted (Ctrl-C)",
}

# Agents append this mark to the message of a failed start.
PROGRAM_NOT_FOUND = "program-not-found"
NOT_FOUND_MARK = f"[{PROGRAM_NOT_FOUND}]"

# Error codes that are more specific than the HTTP status of the response.
_BY_CODE = {
    "server-unreachable": UNREACHABLE,
    "manager-unreachable": UNREACHABLE,
    "not-found": NOT_FOUND,
    "not-logged-in": LOGIN,
    "still-waiting": WAITING,
    "never-fits": WAITING,
    "infeasible": WAITING,
    "pending-timeout": WAITING,
    "invalid-setting": USAGE,
    "invalid-settings": USAGE,
    "nothing-shared": USAGE,
    "unreadable-config": USAGE,
    "setting-file-missing": USAGE,
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
    """The exit code for an error, by its code, or else by its HTTP status."""
    if isinstance(error, ClientFailure):
        return NO_PROGRAM if error.code == PROGRAM_NOT_FOUND or NOT_FOUND_MARK in error.message else CLIENT_FAILURE
    code, status = getattr(error, "code", ""), getattr(error, "status", None)
    if code in _BY_CODE:
        return _BY_CODE[code]
    return _BY_HTTP_STATUS.get(status, FAILED) if isinstance(status, int) else FAILED
