"""The OpenAPI document, generated from the operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

from sokovan import __version__
from sokovan.api.middleware import OPEN_PATH
from sokovan.api.operations import EVENT_STREAM, SCHEMAS, OperationRoute, event_types
from sokovan.api.routes.streams.exec import PATH as EXEC_PATH
from sokovan.api.routes.streams.ports import PORT_PATH
from sokovan.wire.api.system import ProblemView

SECURITY = "bearer"
_DESCRIPTION = """\
Sessions, agents, owners and limits. Every error is `application/problem+json` with a stable `code` and a `hint`.
Lists are paginated: `next` is the `cursor` of the next page. Times are RFC 3339 in UTC.
"""
_EXEC = (
    "A WebSocket. First message: JSON {command, terminal, rows, columns}; then binary frames are input (an empty one "
    "ends it) and text frames {resize: [rows, columns]}. Binary frames back are output, the last text is {exit_code} "
    "or a problem."
)
_PORT = (
    "A WebSocket to a leased port of a kernel, by its name or number. Binary frames are the bytes of the connection; "
    "an empty one from the client ends its side. The last text is {exit_code: 0} or a problem."
)


def document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The document of these routes."""
    schema: dict[str, Any] = get_openapi(
        title="Sokovan",
        version=__version__,
        description=_DESCRIPTION,
        routes=[route.described() for route in routes if isinstance(route, OperationRoute)],
        separate_input_output_schemas=False,
    )
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for kind in [ProblemView, *_own_types(routes)]:
        schemas.update(_schemas_of(kind))
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {SECURITY: {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{SECURITY: []}]
    schema["paths"][OPEN_PATH]["get"]["security"] = []
    sockets = {EXEC_PATH: _EXEC, PORT_PATH: _PORT}
    schema["x-websockets"] = {path.replace(":int", ""): {"description": text} for path, text in sockets.items()}
    return schema


def _own_types(routes: Sequence[BaseRoute]) -> list[Any]:
    """The types that FastAPI does not see: bodies and stream events."""
    operations = [route.operation for route in routes if isinstance(route, OperationRoute)]
    bodies = [body for one in operations for body in (one.body, one.lines) if body is not None]
    return bodies + [kind for one in operations if one.media == EVENT_STREAM for kind in event_types(one.answer)]


def _schemas_of(kind: Any) -> dict[str, Any]:
    schema = TypeAdapter(kind).json_schema(ref_template=SCHEMAS + "{model}")
    parts: dict[str, Any] = schema.pop("$defs", {})
    return {**parts, kind.__name__: schema}
