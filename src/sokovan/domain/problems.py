"""What is wrong with a request: everything at once, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, ParamSpec

from sokovan.domain.errors import InvalidInput, InvalidSlots, InvalidSpec, quoted

P = ParamSpec("P")

# A message names so many; an error object carries all of them.
TOLD_MAX = 20


class Problem(NamedTuple):
    """One thing that is wrong; `where` is the path of the value, as `groups/0/size`."""

    where: str
    problem: str


class InvalidRequest(InvalidInput):
    """A request that cannot become a session, with everything that is wrong with it."""

    code = "invalid-request"
    hint = "mend the values named above and submit again; nothing was stored"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        told = [f"{where}: {problem}" for where, problem in self.problems[:TOLD_MAX]]
        if len(self.problems) > TOLD_MAX:
            told.append(f"and {len(self.problems) - TOLD_MAX} more")
        super().__init__("the request cannot be taken: " + "; ".join(told))


class NameTaken(InvalidRequest):
    """A request that is fine, but for a session of the same name that has not ended."""

    code = "name-taken"
    hint = "take another name, or none; or end that session first. Nothing was stored"


def problems_of(where: str, check: Callable[P, object], *args: P.args, **options: P.kwargs) -> Iterator[Problem]:
    """The objection of a check that raises, as a problem; nothing if it agrees."""
    try:
        check(*args, **options)
    except InvalidInput as error:
        yield Problem(_path(where, error), in_words(error))


def _path(where: str, error: InvalidInput) -> str:
    """A check that names a field inside its value (`environment.PATH`) makes the path longer."""
    inner = error.field.partition(".")[2] if isinstance(error, InvalidSpec) else ""
    return f"{where}/{inner}" if inner else where


def in_words(error: InvalidInput) -> str:
    """What an error says of a value whose place is told beside it."""
    if isinstance(error, InvalidSpec):
        return f"{quoted(error.value)} {error.problem}"
    if isinstance(error, InvalidSlots):
        return f"{quoted(error.given)}: {error.problem}; {error.hint}"
    return f"{error.message}; {error.hint}"
