"""Validation problems of a request, collected and located by path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, ParamSpec

from sokovan.domain.errors import InvalidInput, InvalidSlots, InvalidSpec, quoted

P = ParamSpec("P")

# The message lists this many; the error object carries all of them.
LISTED_MAX = 20


class Problem(NamedTuple):
    """One validation problem; `where` is the path of the value, as `groups/0/size`."""

    where: str
    problem: str


class InvalidRequest(InvalidInput):
    """An invalid request, with every problem found in it."""

    code = "invalid-request"
    hint = "correct the values named above and submit again; nothing was stored"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [f"{where}: {problem}" for where, problem in self.problems[:LISTED_MAX]]
        if len(self.problems) > LISTED_MAX:
            lines.append(f"and {len(self.problems) - LISTED_MAX} more")
        super().__init__("the request is invalid: " + "; ".join(lines))


class NameTaken(InvalidRequest):
    """The name is used by another session that has not ended."""

    code = "name-taken"
    hint = "choose another name, or none; or end that session first. Nothing was stored"


class PrivateScalingGroup(InvalidRequest):
    """The scaling group is private, and not assigned to the owner of the session."""

    code = "scaling-group-private"
    hint = "choose another scaling group, or none; or ask an administrator: `sokovan scaling-group set NAME --assign`"


class TooManyPending(InvalidRequest):
    """The user has as many pending sessions as may be stored."""

    code = "too-many-pending"
    hint = "wait until some have started, cancel some, or ask an administrator: `sokovan quota set NAME --stored N`"


class FolderRefused(InvalidRequest):
    """The session names a folder of agents that it may not use."""

    code = "folder-refused"
    hint = (
        "bring your files with --upload, or ask an administrator to allow it:"
        " `sokovan scaling-group set NAME --mount-root FOLDER`. Nothing was stored"
    )


def problems_of(where: str, check: Callable[P, object], *args: P.args, **options: P.kwargs) -> Iterator[Problem]:
    """The error that a check raises, as a problem; nothing if the check passes."""
    try:
        check(*args, **options)
    except InvalidInput as error:
        yield Problem(_path(where, error), problem_text(error))


def _path(where: str, error: InvalidInput) -> str:
    """The path of the value, extended by a field inside it (`environment.PATH`)."""
    inner = error.field.partition(".")[2] if isinstance(error, InvalidSpec) else ""
    return f"{where}/{inner}" if inner else where


def problem_text(error: InvalidInput) -> str:
    """The message of an error, without the location of the value."""
    if isinstance(error, InvalidSpec):
        return f"{quoted(error.value)} {error.problem}"
    if isinstance(error, InvalidSlots):
        return f"{quoted(error.given)}: {error.problem}; {error.hint}"
    return f"{error.message}; {error.hint}"
