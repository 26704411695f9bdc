"""Decodes responses of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from sokovan.sdk.core.calls import Call, Nothing
from sokovan.sdk.errors import ClientProblem, UnexpectedAnswer, api_problem
from sokovan.wire.api.system import ProblemView

T = TypeVar("T")

PROBLEM_TYPE = "application/problem+json"
_QUOTED_MAX = 200


def interpret(call: Call[T], *, status: int, headers: Mapping[str, str], content: bytes) -> T:
    """Decode the object of a response. Raises the problem that it describes."""
    if not 200 <= status < 300:
        raise problem_of(status=status, headers=headers, content=content)
    if call.answer is Nothing:
        return call.answer()
    return decoded(content, call.answer)


def decoded(content: bytes | str, kind: type[T]) -> T:
    """Decode JSON as an object of this type. Raises UnexpectedAnswer."""
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
