"""What can go wrong with a command line itself."""

from __future__ import annotations


class CommandError(Exception):
    """A problem of the command itself, told like every other error."""

    def __init__(self, message: str, *, code: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.code, self.hint = message, code, hint


def usage_error(message: str, *, hint: str) -> CommandError:
    """The problem of a command line that cannot be taken as it is."""
    return CommandError(message, code="usage", hint=hint)


class ClientFailure(Exception):
    """A failure of ours, where every other status is the user's command's."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(str(problem))
        self.problem = getattr(problem, "problem", None)
        self.message = getattr(problem, "message", str(problem))
        self.code = getattr(problem, "code", "internal")
        self.hint = getattr(problem, "hint", "")
