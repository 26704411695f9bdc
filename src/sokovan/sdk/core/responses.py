"""What an answer of the server means."""

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
    """The object that an answer holds. Raises the problem that it tells of."""
    if not 200 <= status < 300:
        raise problem_of(status=status, headers=headers, content=content)
    if call.answer is Nothing:
        return call.answer()
    return decoded(content, call.answer)


def decoded(content: bytes | str, kind: type[T]) -> T:
    """JSON as an object of this kind. Raises UnexpectedAnswer."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnexpectedAnswer(f"the server's answer cannot be read: {error}") from error


def problem_of(*, status: int, headers: Mapping[str, str], content: bytes | str) -> ClientProblem:
    """The error that an answer tells of."""
    if headers.get("content-type", "").partition(";")[0].strip() == PROBLEM_TYPE:
        problem = decoded(content, ProblemView)
        return api_problem(problem, retry_after_s=retry_after_s(headers))
    text = content if isinstance(content, str) else content.decode(errors="replace")
    told = " ".join(text[:_QUOTED_MAX].split())
    return UnexpectedAnswer(f"the server answered {status} without saying why" + (f": {told}" if told else ""))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """After how many seconds the server wants to be asked again, if it says so."""
    value = headers.get("retry-after", "").strip()
    return float(value) if value.isdecimal() and len(value) < 6 else None
