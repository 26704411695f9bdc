"""The system itself: who asks, whether it works, its figures and its document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from sokovan import __version__
from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import require
from sokovan.api.context import ApiContext
from sokovan.api.mapping.tenancy import whoami_view
from sokovan.api.middleware import OPEN_PATH
from sokovan.api.operations import Operation, json_response
from sokovan.domain.access import Action, ObjectKind
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import SokovanError
from sokovan.wire.api.system import HealthView
from sokovan.wire.api.tenancy import WhoamiView

PLAIN = "text/plain"
# The media type of Prometheus' text format.
FIGURES = "text/plain; version=0.0.4; charset=utf-8"
LOOK_S = 2.0
OK = "ok"
UNREACHABLE = "unreachable"


class SystemRoutes:
    """What the system says of itself; `document` gives the OpenAPI document."""

    def __init__(self, context: ApiContext, document: Callable[[], dict[str, Any]]) -> None:
        self._dependencies, self._document = context.dependencies, document

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        tag = "system"
        return [
            Operation(method="GET", path=OPEN_PATH, endpoint=self.livez, tag=tag, media=PLAIN),
            Operation(
                method="GET", path="/readyz", endpoint=self.readyz, tag=tag, answer=HealthView, also={503: HealthView}
            ),
            Operation(method="GET", path="/metrics", endpoint=self.metrics, tag=tag, media=PLAIN),
            Operation(method="GET", path="/api/v1/openapi.json", endpoint=self.openapi, tag=tag, answer=dict[str, Any]),
            Operation(method="GET", path="/api/v1/whoami", endpoint=self.whoami, tag=tag, answer=WhoamiView),
            Operation(method="GET", path="/api/v1/health", endpoint=self.health, tag=tag, answer=HealthView),
        ]

    async def livez(self) -> Response:
        """Say that the process is alive; the only answer that needs no key."""
        return PlainTextResponse("ok\n")

    async def readyz(self) -> Response:
        """Say whether requests can be served: 200, or 503 with what does not work.

        Not ready is who has no store, or no manager that answers: what is asked for would wait.
        """
        view = await self._looked()
        return json_response(view, status=200 if view.status == OK else 503)

    async def health(self) -> Response:
        """Say how the parts of the system are: 200 also where some do not work.

        `status` is `ok` or `degraded`; `parts` says of each what it does.
        """
        return json_response(await self._looked())

    async def metrics(self, request: Request) -> Response:
        """Give the figures for Prometheus; administrators only."""
        require(principal_of(request.scope), Action.SEE, ObjectKind.SYSTEM, name="metrics")
        return Response(self._dependencies.metrics(), media_type=FIGURES)

    async def openapi(self) -> Response:
        """Give the document that describes every operation."""
        return json_response(self._document())

    async def whoami(self, request: Request) -> Response:
        """Say who the caller is, as the server sees it."""
        principal = principal_of(request.scope).identity
        return json_response(whoami_view(principal.user, principal.keypair))

    async def _looked(self) -> HealthView:
        store, (manager, agents) = await asyncio.gather(self._store(), self._manager())
        parts = {"api": OK, "store": store, "manager": manager, "agents": agents}
        status = OK if store == manager == OK else "degraded"
        return HealthView(status=status, version=__version__, parts=parts)

    async def _store(self) -> str:
        try:
            async with asyncio.timeout(LOOK_S):
                await self._dependencies.store.read(lambda unit: unit.catalog.all(ScalingGroup))
        except SokovanError as error:
            return error.code
        except TimeoutError:
            return f"no answer within {LOOK_S:g} s"
        return OK

    async def _manager(self) -> tuple[str, str]:
        """Whether the manager answers, and how many agents it hears."""
        try:
            async with asyncio.timeout(LOOK_S):
                heard = await self._dependencies.agents.fresh()
        except (SokovanError, TimeoutError, RuntimeError):  # the last is a loop that has been closed
            return UNREACHABLE, "unknown"
        return OK, f"{len(heard)} heard of lately"
