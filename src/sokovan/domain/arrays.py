"""Job arrays: many equal sessions of one request, each with an index.

The notation is that of batch systems: `0-999%50` are the indexes 0 to 999, of which 50
run at once; `1,3,7-9` and `0-100:10` (every tenth) are indexes, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from sokovan.domain.checks import require_int
from sokovan.domain.errors import InvalidSpec, quoted
from sokovan.domain.ids import ArrayId, checked_name, is_name

# The limit of owners without a policy limit, and the limit of what is expanded at all.
MEMBERS_DEFAULT = 10_000
MEMBERS_MAX = 100_000
INDEX_MAX = 999_999_999
TEXT_MAX = 10_000

# The first index, the last one and the step.
IndexRange: TypeAlias = tuple[int, int, int]
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
_RULE = "must be indexes as 0-999, 1,3,7-9 or 0-100:10, and may end with %N, the number that run at once"
_MEMBER = re.compile(r"(.+)\[(0|[1-9][0-9]{0,8})\]", re.ASCII)


@dataclass(frozen=True, slots=True)
class ArrayRequest:
    """The indexes of a requested array, and how many of its sessions run at once."""

    ranges: tuple[IndexRange, ...]
    at_once: int | None = None

    @property
    def size(self) -> int:
        """How many sessions it has, without expanding the ranges."""
        return sum(len(range(first, last + 1, step)) for first, last, step in self.ranges)

    @property
    def indexes(self) -> tuple[int, ...]:
        """Every index, in rising order."""
        return tuple(sorted(index for first, last, step in self.ranges for index in range(first, last + 1, step)))

    def first_member(self, array_id: ArrayId) -> ArrayMember:
        """The session with the lowest index."""
        indexes = self.indexes
        return ArrayMember(array_id, indexes[0], len(indexes), indexes[0], indexes[-1], at_once=self.at_once)

    def text(self) -> str:
        """The notation that `read_array` reads."""
        parts = ",".join(_range_text(*one) for one in self.ranges)
        return parts if self.at_once is None else f"{parts}%{self.at_once}"


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """The array that a session belongs to, and its index in it.

    `first` and `last` are the lowest and the highest index; at most `at_once` members run
    at once.
    """

    array_id: ArrayId
    index: int
    size: int
    first: int
    last: int
    at_once: int | None = None

    def __post_init__(self) -> None:
        checked_name(self.array_id, what="array")
        what = f"array {self.array_id}"
        for field, value in (("index", self.index), ("first", self.first), ("last", self.last)):
            require_int(value, what=what, field=field, least=0, most=INDEX_MAX)
        require_int(self.size, what=what, field="size", least=1, most=MEMBERS_MAX)
        if self.at_once is not None:
            require_int(self.at_once, what=what, field="at_once", least=1)

    def named(self, array: str) -> str:
        """The name of the session, by the name of its array."""
        return member_name(array, self.index)


def read_array(text: str) -> ArrayRequest:
    """Read the notation of an array. Raises InvalidSpec, before anything is expanded.

    >>> read_array("0-8:4%2").indexes
    (0, 4, 8)
    """
    if len(text) > TEXT_MAX:
        raise _invalid(text, f"is longer than {TEXT_MAX} characters")
    if not text:
        raise _invalid(text, f"is empty; it {_RULE}")
    listed, percent, limit = text.partition("%")
    if percent and not (re.fullmatch(r"[0-9]{1,9}", limit, re.ASCII) and int(limit)):
        raise _invalid(text, f"%{limit[:20]} is not a number from 1 to 999999999")
    request = ArrayRequest(tuple(_range(part, text) for part in listed.split(",")), int(limit) if percent else None)
    if request.size > MEMBERS_MAX:
        raise _invalid(text, f"has {request.size} sessions, more than {MEMBERS_MAX}")
    if len(set(request.indexes)) < request.size:
        raise _invalid(text, "has an index twice")
    return request


def member_name(array: str, index: int) -> str:
    """The name of a session of an array, as `sweep[17]`."""
    return f"{array}[{index}]"


def array_name(member: str) -> str:
    """The name of the array that a name of a session belongs to; "" for other names.

    >>> array_name("sweep[17]")
    'sweep'
    """
    found = _MEMBER.fullmatch(member)
    return "" if found is None else found.group(1)


def is_session_name(text: str) -> bool:
    """Whether a session may have this name: any name, or that of a member of an array."""
    return is_name(array_name(text) or text)


def _range(part: str, text: str) -> IndexRange:
    found = _RANGE.fullmatch(part)
    if found is None:
        raise _invalid(text, f"{_RULE}; {quoted(part)} is none")
    first, last, step = (None if one is None else int(one) for one in found.groups())
    if first is None or last is None:
        return (first or 0, first or 0, 1)
    if last < first:
        raise _invalid(text, f"{part} ends before it begins")
    if step == 0:
        raise _invalid(text, f"{part} has the step :0")
    return (first, last, step or 1)


def _range_text(first: int, last: int, step: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if step == 1 else f"{first}-{last}:{step}"


def _invalid(text: str, problem: str) -> InvalidSpec:
    return InvalidSpec(what="session", field="array", value=text, problem=problem)
