"""Errors of the command line itself."""

from __future__ import annotations


class CommandError(Exception):
    """An error in the command line, with a code and a hint like every other error."""

    def __init__(self, message: str, *, code: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.code, self.hint = message, code, hint


def usage_error(message: str, *, hint: str) -> CommandError:
    """The error for a command line that is not valid."""
    return CommandError(message, code="usage", hint=hint)


class ClientFailure(Exception):
    """A failure of sokovan itself in a command whose exit code is the user program's."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(str(problem))
        self.problem = getattr(problem, "problem", None)
        self.message = getattr(problem, "message", str(problem))
        self.code = getattr(problem, "code", "internal")
        self.hint = getattr(problem, "hint", "")
