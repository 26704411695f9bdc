"""API operations: each defines a route and its documentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from sokovan.api.errors import Forbidden
from sokovan.api.problems import MEDIA_TYPE
from sokovan.api.request_bodies import JSON_MEDIA, field_problems, read_body
from sokovan.domain.errors import ObjectNotFound, SokovanError
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.wire.api.batches import LINES_MEDIA

B = TypeVar("B")

SCHEMAS = "#/components/schemas/"
EVENT_STREAM = "text/event-stream"
BINARY_MEDIA = "application/octet-stream"
BODY = "sokovan.body"
VERSION_PATH = "/api/v1/"
# Errors that any operation may return.
ALWAYS = (401, 403, 413, 422, 429, 500, 503)
_READS = frozenset({"GET", "HEAD"})

Denied: TypeAlias = Callable[[Request, SokovanError], Awaitable[None]]
Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]
# Calls a handler when it is its user's turn.
InTurn: TypeAlias = Callable[[Request, Handler], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOperation:
    """A method on a path, with its body, response and errors.

    `answer` is the type of a JSON response with `status`, or of each event of a stream, or
    several that events have;
    `also` are other statuses that are not failures; `media` is the media type of a
    response that is not JSON; `lines` is the type of each line of a body of JSON lines, and
    `binary` means that the body is content of any kind; both are read by the endpoint.
    With `asks_agents` the time of a response depends on them. With `stores_nothing` a POST
    only computes, and takes turns like a read.
    """

    method: str
    path: str
    endpoint: Callable[..., Awaitable[Response]]
    tag: str
    answer: Any = None
    status: int = 200
    also: Mapping[int, Any] = field(default_factory=dict)
    fails: tuple[int, ...] = ()
    body: Any = None
    lines: Any = None
    media: str = JSON_MEDIA
    binary: bool = False
    asks_agents: bool = False
    stores_nothing: bool = False

    @property
    def name(self) -> str:
        """The operation id: `sessions_create`."""
        return f"{self.tag}_{getattr(self.endpoint, '__name__', 'call')}".replace("-", "_")

    @property
    def takes_turns(self) -> bool:
        """Whether it only reads or computes; streams and probes do not wait."""
        is_read = self.method in _READS or self.stores_nothing
        is_json = self.media == JSON_MEDIA and self.path.startswith(VERSION_PATH)
        return is_read and is_json and not self.asks_agents

    @property
    def changes(self) -> bool:
        """Whether it may change something; its denials are audited."""
        return self.method not in _READS

    def responses(self) -> dict[int | str, dict[str, Any]]:
        """The other responses, for OpenAPI."""
        fails = {*ALWAYS, *self.fails, *((415,) if self.body is not None else ())}
        good: dict[int | str, dict[str, Any]] = {status: {"model": kind} for status, kind in self.also.items()}
        if self.media == EVENT_STREAM:
            good[self.status] = {"content": {EVENT_STREAM: {"itemSchema": _event(self.answer)}}}
        elif self.media != JSON_MEDIA:
            good[self.status] = {"content": {self.media: {"schema": {"type": "string"}}}}
        return good | {status: _problem(status) for status in sorted(fails)}


class OperationRoute(Route):
    """The route of an operation; what FastAPI needs is built by its first request.

    For all routes that would take a fifth of the start of a server.
    """

    def __init__(self, operation: ApiOperation, *, denied: Denied, in_turn: InTurn) -> None:
        super().__init__(operation.path, operation.endpoint, name=operation.name)
        self.operation, self._denied, self._in_turn = operation, denied, in_turn
        self.methods = {operation.method}  # without HEAD, as FastAPI's routes

    @cached_property
    def served(self) -> ServedRoute:
        """The route that answers requests."""
        return ServedRoute(self.operation, denied=self._denied, in_turn=self._in_turn)

    def described(self) -> ServedRoute:
        """The same route with the types of its responses."""
        return ServedRoute(self.operation, denied=self._denied, in_turn=self._in_turn, described=True)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Like those of FastAPI, with the route: measurements and the audit log name it."""
        match, child = super().matches(scope)
        return match, child if match is Match.NONE else {**child, "route": self}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that matches."""
        await self.served.handle(scope, receive, send)


class ServedRoute(APIRoute):
    """The route of an operation, as it answers requests.

    FastAPI reads path, query and headers. The body is read here, strictly, and unknown
    parameters are rejected: a misspelt filter must not match everything.

    Only a `described` route has the types of its responses. The OpenAPI document needs
    them and no request does; their schemas would take most of the start of a server.
    """

    def __init__(self, operation: ApiOperation, *, denied: Denied, in_turn: InTurn, described: bool = False) -> None:
        self.operation, self._denied, self._in_turn = operation, denied, in_turn
        text = (operation.endpoint.__doc__ or "").strip()
        is_json = operation.answer is not None and operation.media == JSON_MEDIA
        super().__init__(
            operation.path,
            operation.endpoint,
            methods=[operation.method],
            response_model=operation.answer if is_json and described else None,
            status_code=operation.status,
            tags=[operation.tag],
            summary=text.partition("\n")[0].rstrip("."),
            responses=operation.responses() if described else None,
            operation_id=operation.name,
            openapi_extra=_request_body(operation),
            response_class=JSONResponse if is_json else Response,
        )

    def get_route_handler(self) -> Handler:
        """FastAPI's handler, called after the request was read."""
        inner = super().get_route_handler()
        operation, denied, in_turn = self.operation, self._denied, self._in_turn
        known = frozenset(name for parameter in self.dependant.query_params for name in _names_of(parameter))

        async def handle(request: Request) -> Response:
            try:
                _require_known(request, known)
                if operation.body is not None:
                    request.scope[BODY] = await read_body(request, operation.body)
                return await (in_turn(request, inner) if operation.takes_turns else inner(request))
            except RequestValidationError as error:
                raise InvalidRequest(field_problems(error.errors())) from None
            except (Forbidden, ObjectNotFound) as error:
                if operation.changes:
                    await denied(request, error)
                raise

        return handle


def body_of(request: Request, kind: type[B]) -> B:
    """The parsed body of this request."""
    body = request.scope.get(BODY)
    if not isinstance(body, kind):
        raise InvalidRequest([Problem("body", "is missing")])
    return body


def json_response(content: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A wire object as a JSON response, encoded by msgspec."""
    return Response(msgspec.json.encode(content), status_code=status, media_type=JSON_MEDIA, headers=headers)


def _names_of(parameter: Any) -> list[str]:
    """The name of a parameter, or the field names of a model."""
    kind = parameter.field_info.annotation
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
    return list(kind.model_fields) if is_model else [parameter.alias]


def _require_known(request: Request, known: frozenset[str]) -> None:
    # A query that is not UTF-8 decodes to replacement characters, which no parameter name contains.
    unknown = sorted({name for name in request.query_params if name not in known})
    if unknown:
        options = ", ".join(sorted(known)) or "none"
        problems = [Problem(f"query/{name[:100]}", f"is not a parameter; known: {options}") for name in unknown[:10]]
        raise InvalidRequest(problems)


def _problem(status: int) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{SCHEMAS}ProblemView"}}}
    return {"description": HTTPStatus(status).phrase, "content": content}


def event_types(answer: Any) -> tuple[Any, ...]:
    """The types of the events of a stream.

    >>> event_types(int | str)
    (<class 'int'>, <class 'str'>)
    """
    return get_args(answer) or (answer,)


def _event(kind: Any) -> dict[str, Any]:
    """The schema of a server-sent event, as OpenAPI 3.2 describes it."""
    names = [*(one.__name__ for one in event_types(kind)), "ProblemView"]
    content = {"anyOf": [{"$ref": f"{SCHEMAS}{name}"} for name in names]}
    properties = {
        "event": {"type": "string"},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": JSON_MEDIA, "contentSchema": content},
    }
    return {"type": "object", "properties": properties, "required": ["data"]}


def _request_body(operation: ApiOperation) -> dict[str, Any] | None:
    if operation.binary:
        content = {BINARY_MEDIA: {"schema": {"type": "string", "format": "binary"}}}
        return {"requestBody": {"required": True, "content": content}}
    if operation.lines is not None:
        content = {LINES_MEDIA: {"itemSchema": {"$ref": f"{SCHEMAS}{operation.lines.__name__}"}}}
        return {"requestBody": {"required": True, "content": content}}
    if operation.body is None:
        return None
    schema = {"$ref": f"{SCHEMAS}{operation.body.__name__}"}
    return {"requestBody": {"required": True, "content": {JSON_MEDIA: {"schema": schema}}}}
