"""The application: routes behind the gate, and one ear on the bus while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from sokovan import __version__
from sokovan.api.context import ApiContext
from sokovan.api.errors import MethodNotAllowed, NoSuchRoute
from sokovan.api.exec import ExecSocket
from sokovan.api.gate import Gate
from sokovan.api.openapi import document
from sokovan.api.operations import Operation, OperationRoute
from sokovan.api.parts import ApiParts
from sokovan.api.routes.agents import AgentRoutes
from sokovan.api.routes.explanations import ExplanationRoutes
from sokovan.api.routes.fleet import fleet_operations
from sokovan.api.routes.keys import KeyRoutes
from sokovan.api.routes.logs import LogRoutes
from sokovan.api.routes.sessions import SessionRoutes
from sokovan.api.routes.system import SystemRoutes
from sokovan.api.routes.tenancy import tenancy_operations
from sokovan.api.routes.watching import WatchRoutes
from sokovan.api.settings import ApiSettings
from sokovan.domain.errors import quoted


def make_app(parts: ApiParts, settings: ApiSettings) -> FastAPI:
    """The API over these parts. `close_streams` lets a server stop without waiting."""
    context = ApiContext.of(parts, settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with context.streams.hub.running():
            yield

    gate = Middleware(Gate, parts=parts, settings=settings, authenticator=context.authenticator)
    app = FastAPI(
        title="Sokovan",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        middleware=[gate],
        exception_handlers={HTTPException: _unrouted},
    )
    app.state.context = context

    @cache
    def described() -> dict[str, Any]:
        return document(app.router.routes)

    app.openapi = described  # type: ignore[method-assign]  # so that whoever asks FastAPI gets the same document
    for operation in _operations(context, app):
        app.router.routes.append(OperationRoute(operation, denied=context.auditor.denied))
    app.router.routes.append(ExecSocket(context).route())
    return app


def close_streams(app: FastAPI) -> None:
    """End every stream, before the server is told to stop."""
    app.state.context.streams.hub.close()


def _operations(context: ApiContext, app: FastAPI) -> list[Operation]:
    """Every operation; where two paths could match, the exact one comes first."""
    return [
        *SystemRoutes(context, app.openapi).operations(),
        *ExplanationRoutes(context).operations(),
        *SessionRoutes(context).operations(),
        *WatchRoutes(context).operations(),
        *LogRoutes(context).operations(),
        *AgentRoutes(context).operations(),
        *fleet_operations(context),
        *tenancy_operations(context),
        *KeyRoutes(context).operations(),
    ]


async def _unrouted(request: Request, error: Exception) -> Response:
    """What the router itself refuses, in our words: raised, so that the gate answers."""
    path = request.url.path
    if not isinstance(error, HTTPException) or error.status_code != 405:
        raise NoSuchRoute(f"there is nothing at {quoted(path)}") from None
    allowed = {
        method
        for route in request.app.router.routes
        if isinstance(route, OperationRoute) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    raise MethodNotAllowed(method=request.method, path=path, allowed=sorted(allowed)) from None
