"""Errors as RFC 9457 problems: status, stable code and hint; no stack trace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from sokovan.api import errors
from sokovan.domain.errors import (
    Conflict,
    FencedOut,
    ForbiddenCause,
    IdempotencyConflict,
    InvalidInput,
    InvalidSpec,
    InvalidTable,
    LifecycleError,
    ObjectNotFound,
    SokovanError,
    StaleVersion,
    StoreUnavailable,
    quoted,
)
from sokovan.domain.problems import InvalidRequest, NameTaken, PrivateScalingGroup, TooManyPending
from sokovan.domain.records import DETAIL_MAX
from sokovan.orchestrator.sessions.explain.plan import DryRunUnavailable
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable
from sokovan.ports.events import BusUnavailable
from sokovan.ports.kernel_files import FileMissing
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.api.system import FieldProblem, ProblemView

MEDIA_TYPE = "application/problem+json"
# RFC 9457 requires a URI as type; the error reference is generated from the same codes.
KIND = "urn:sokovan:error:"
RETRY_AFTER_S = 1

# A class without an entry has the status of its nearest base class.
STATUSES: dict[type[SokovanError], HTTPStatus] = {
    SokovanError: HTTPStatus.INTERNAL_SERVER_ERROR,
    InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    NameTaken: HTTPStatus.CONFLICT,
    PrivateScalingGroup: HTTPStatus.FORBIDDEN,
    TooManyPending: HTTPStatus.CONFLICT,
    ObjectNotFound: HTTPStatus.NOT_FOUND,
    StaleVersion: HTTPStatus.CONFLICT,
    Conflict: HTTPStatus.CONFLICT,
    IdempotencyConflict: HTTPStatus.UNPROCESSABLE_ENTITY,
    LifecycleError: HTTPStatus.CONFLICT,
    InvalidTable: HTTPStatus.INTERNAL_SERVER_ERROR,
    ForbiddenCause: HTTPStatus.INTERNAL_SERVER_ERROR,
    FencedOut: HTTPStatus.SERVICE_UNAVAILABLE,
    StoreUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    BusUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    AgentUnreachable: HTTPStatus.SERVICE_UNAVAILABLE,
    DryRunUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    AgentRefused: HTTPStatus.CONFLICT,
    RuntimeFailure: HTTPStatus.CONFLICT,
    FileMissing: HTTPStatus.NOT_FOUND,
    errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    errors.Forbidden: HTTPStatus.FORBIDDEN,
    errors.NoSuchRoute: HTTPStatus.NOT_FOUND,
    errors.MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
    errors.LogGone: HTTPStatus.GONE,
    errors.ExecFailed: HTTPStatus.CONFLICT,
    errors.PortUnreachable: HTTPStatus.CONFLICT,
    errors.ModelFailed: HTTPStatus.BAD_GATEWAY,
    errors.BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.UnsupportedMedia: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
}


def status_of(error: SokovanError) -> HTTPStatus:
    """The HTTP status of an error, by the nearest class that has one."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def problem_of(error: BaseException, request_id: str) -> ProblemView:
    """An error as a wire type; unexpected errors reveal no details."""
    known = error if isinstance(error, SokovanError) else SokovanError("internal server error")
    status = status_of(known)
    return ProblemView(
        type=KIND + known.code,
        title=status.phrase,
        status=int(status),
        detail=_shown(known.message),
        code=known.code,
        hint=known.hint,
        request_id=request_id,
        problems=_fields_of(known),
    )


def problem_response(error: BaseException, request_id: str) -> Response:
    """The HTTP response to a failed request."""
    problem = problem_of(error, request_id)
    return Response(
        msgspec.json.encode(problem), status_code=problem.status, media_type=MEDIA_TYPE, headers=_headers_of(error)
    )


def forget_frames(error: BaseException) -> None:
    """Remove the tracebacks of an error that was answered.

    Frames and errors refer to each other, so that the body of each refused request would be kept
    until a garbage collection, hundreds of megabytes of them.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = None
        waiting += [one.__cause__, one.__context__]


async def unrouted(request: Request, error: Exception) -> Response:
    """Raise NoSuchRoute or MethodNotAllowed for unmatched requests."""
    path = request.url.path
    if not isinstance(error, HTTPException) or error.status_code != 405:
        raise errors.NoSuchRoute(f"there is no route {quoted(path)}") from None
    allowed = {
        method
        for route in request.app.router.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    raise errors.MethodNotAllowed(method=request.method, path=path, allowed=sorted(allowed)) from None


def _headers_of(error: BaseException) -> Mapping[str, str]:
    match error:
        case errors.Unauthenticated():
            return {"WWW-Authenticate": 'Bearer realm="sokovan"'}
        case errors.TooManyRequests():
            return {"Retry-After": str(max(1, math.ceil(error.wait_s)))}
        case errors.MethodNotAllowed():
            return {"Allow": ", ".join(error.allowed)}
        case SokovanError() if status_of(error) is HTTPStatus.SERVICE_UNAVAILABLE:
            return {"Retry-After": str(RETRY_AFTER_S)}
        case _:
            return {}


def _fields_of(error: SokovanError) -> list[FieldProblem]:
    if isinstance(error, InvalidRequest):
        return [FieldProblem(where=_shown(one.where), problem=_shown(one.problem)) for one in error.problems]
    if isinstance(error, InvalidSpec):
        return [FieldProblem(where=_shown(error.path), problem=_shown(error.problem))]
    return []


def _shown(text: str) -> str:
    """The text on one line, without control characters, of bounded length."""
    cut = text.replace("\n", " ") if len(text) <= DETAIL_MAX else f"{text[:DETAIL_MAX]}…"
    return cut if cut.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in cut)
