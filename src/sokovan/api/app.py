"""The FastAPI application: routes, middleware and the event hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, WebSocketRoute

from sokovan import __version__
from sokovan.api.access.request_queues import ReadQueues
from sokovan.api.context import ApiContext, ApiDependencies
from sokovan.api.middleware import RequestMiddleware
from sokovan.api.openapi import document
from sokovan.api.operations import OperationRoute
from sokovan.api.problems import unrouted
from sokovan.api.routes.streams.exec import PATH, ExecSocket
from sokovan.api.routes.streams.ports import PORT_PATH, PortSocket
from sokovan.api.routes.streams.proxy_messages import ProxyMessages
from sokovan.api.routes.table import every_operation, probe_operations
from sokovan.api.settings import ApiSettings


def make_app(
    dependencies: ApiDependencies,
    settings: ApiSettings,
    *,
    pages: Sequence[BaseRoute] = (),
    probes_only: bool = False,
) -> FastAPI:
    """Create the application. Call `close_streams` before stopping the server.

    `pages` are the routes of the dashboard's files. With `probes_only` it has health and
    metrics, and nothing else.
    """
    context = ApiContext.of(dependencies, settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with context.streams.hub.running():
            yield
        await context.store.settle()

    middleware = Middleware(
        RequestMiddleware,
        dependencies=dependencies,
        settings=settings,
        authenticator=context.authenticator,
        auditor=context.auditor,
    )
    app = FastAPI(
        title="Sokovan",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        middleware=[middleware],
        exception_handlers={HTTPException: unrouted},
    )
    app.state.context = context

    @cache
    def described() -> dict[str, Any]:
        return document(app.router.routes)

    app.openapi = described  # type: ignore[method-assign]  # FastAPI's own hook serves the same document
    reads = ReadQueues(at_once=settings.reads_at_once)
    for operation in (probe_operations if probes_only else every_operation)(context, described):
        app.router.routes.append(OperationRoute(operation, denied=context.auditor.denied, in_turn=reads))
    if probes_only:
        return app
    app.router.routes.extend(ProxyMessages(context).routes())
    app.router.routes.append(WebSocketRoute(PATH, ExecSocket(context).run, name="sessions_exec"))
    app.router.routes.append(WebSocketRoute(PORT_PATH, PortSocket(context).run, name="sessions_ports"))
    app.router.routes.extend(pages)
    return app


def close_streams(app: FastAPI) -> None:
    """End every stream, so that the server can stop without waiting."""
    app.state.context.streams.hub.close()
