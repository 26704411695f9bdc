"""Decodes responses of the server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TypeVar

from sokovan.sdk.core.calls import Call, Nothing
from sokovan.sdk.errors import ClientProblem, UnexpectedAnswer, api_problem
from sokovan.wire.api.system import ProblemView
from sokovan.wire.plain_codec import NotPlain, read_plain

T = TypeVar("T")

PROBLEM_TYPE = "application/problem+json"
_QUOTED_MAX = 200
# Longer responses are read faster with msgspec, even if it must be loaded for them.
_PLAIN_MAX = 256 << 10


def interpret(call: Call[T], *, status: int, headers: Mapping[str, str], content: bytes) -> T:
    """Decode the object of a response. Raises the problem that it describes."""
    if not 200 <= status < 300:
        raise problem_of(status=status, headers=headers, content=content)
    if call.answer is Nothing:
        return call.answer()
    return decoded(content, call.answer)


def decoded(content: bytes | str, kind: type[T]) -> T:
    """Decode JSON as an object of this type. Raises UnexpectedAnswer."""
    if len(content) <= _PLAIN_MAX and "msgspec" not in sys.modules:
        try:
            return read_plain(content, kind)  # type: ignore[no-any-return]  # an object of the type
        except NotPlain:
            pass  # msgspec says what is wrong, if anything is
    import msgspec  # noqa: PLC0415  # short responses do not need it

    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnexpectedAnswer(f"the server's response cannot be decoded: {error}") from error


def problem_of(*, status: int, headers: Mapping[str, str], content: bytes | str) -> ClientProblem:
    """The error that a response describes."""
    if headers.get("content-type", "").partition(";")[0].strip() == PROBLEM_TYPE:
        problem = decoded(content, ProblemView)
        return api_problem(problem, retry_after_s=retry_after_s(headers))
    text = content if isinstance(content, str) else content.decode(errors="replace")
    quoted = " ".join(text[:_QUOTED_MAX].split())
    return UnexpectedAnswer(f"the server responded with {status} and no reason" + (f": {quoted}" if quoted else ""))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The seconds of a Retry-After header, if there is one."""
    value = headers.get("retry-after", "").strip()
    return float(value) if value.isdecimal() and len(value) < 6 else None
