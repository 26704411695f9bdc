"""Routes of the system: health, metrics, settings, OpenAPI document and caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from sokovan import __version__
from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import open_folders, require
from sokovan.api.context import ApiContext
from sokovan.api.mapping.tenancy import whoami_view
from sokovan.api.middleware import OPEN_PATH
from sokovan.api.operations import ApiOperation, json_response
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import SokovanError
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.orchestrator.sessions.coordinator import LEASE
from sokovan.ports.leases import Lease, Leases
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.system import HealthView, ServerSettingsView, WhoamiView

PLAIN = "text/plain"
# The media type of Prometheus' text format.
FIGURES = "text/plain; version=0.0.4; charset=utf-8"
STORE_CHECK_S = 2.0
MANAGER_CHECK_S = 2.0
OK = "ok"
UNREACHABLE = "unreachable"


class SystemRoutes:
    """Routes of the system; `document` returns the OpenAPI document."""

    def __init__(self, context: ApiContext, document: Callable[[], dict[str, Any]]) -> None:
        dependencies = context.dependencies
        self._store, self._agents, self._leases = dependencies.store, dependencies.agents, dependencies.leases
        self._metrics, self._document = dependencies.metrics, document
        self._machine, self._settings = context.settings.machine, dependencies.settings
        self._process = context.settings.process

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag = "system"
        return [
            ApiOperation(method="GET", path=OPEN_PATH, endpoint=self.livez, tag=tag, media=PLAIN),
            ApiOperation(
                method="GET", path="/readyz", endpoint=self.readyz, tag=tag, answer=HealthView, also={503: HealthView}
            ),
            ApiOperation(method="GET", path="/metrics", endpoint=self.metrics, tag=tag, media=PLAIN),
            ApiOperation(
                method="GET", path="/api/v1/openapi.json", endpoint=self.openapi, tag=tag, answer=dict[str, Any]
            ),
            ApiOperation(method="GET", path="/api/v1/whoami", endpoint=self.whoami, tag=tag, answer=WhoamiView),
            ApiOperation(method="GET", path="/api/v1/health", endpoint=self.health, tag=tag, answer=HealthView),
            ApiOperation(
                method="GET", path="/api/v1/settings", endpoint=self.settings, tag=tag, answer=ServerSettingsView
            ),
        ]

    async def livez(self) -> Response:
        """Liveness probe; the only operation that needs no key."""
        return PlainTextResponse("ok\n")

    async def readyz(self) -> Response:
        """Readiness probe: 200, or 503 with the failing components.

        Not ready without a store that can be read and written, a manager that answers, and
        a manager that leads.
        """
        view = await self._check_health()
        return json_response(view, status=200 if view.status == OK else 503)

    async def health(self) -> Response:
        """Show the health of the components; always 200.

        `status` is `ok` or `degraded`; `parts` has the state of each component.
        """
        return json_response(await self._check_health())

    async def metrics(self, request: Request) -> Response:
        """Export Prometheus metrics; administrators only."""
        require(principal_of(request.scope), Action.SEE, ObjectKind.SYSTEM, name="metrics")
        found = self._metrics()
        return Response(found if isinstance(found, bytes) else await found, media_type=FIGURES)

    async def settings(self, request: Request) -> Response:
        """Show the settings in force and their sources; administrators only."""
        require(principal_of(request.scope), Action.SEE, ObjectKind.SYSTEM, name="settings")
        return json_response(self._settings())

    async def openapi(self) -> Response:
        """Return the OpenAPI document."""
        return json_response(self._document())

    async def whoami(self, request: Request) -> Response:
        """Show the authenticated caller."""
        principal = principal_of(request.scope)
        folders = await self._store.read(lambda unit: open_folders(unit, principal.caller.owner))
        user, keypair = principal.identity.user, principal.identity.keypair
        return json_response(whoami_view(user, keypair, machine=self._machine, folders=folders))

    async def _check_health(self) -> HealthView:
        store, writes, leader, (manager, agents) = await asyncio.gather(
            _outcome(self._store.read(lambda unit: unit.catalog.all(ScalingGroup))),
            _outcome(self._store.run(_write_nothing)),
            self._check_leader(),
            self._check_manager(),
        )
        parts = {"api": OK, "store": store, "writes": writes, "leader": leader, "manager": manager, "agents": agents}
        if self._process:
            parts["process"] = self._process
        status = OK if store == writes == leader == manager == OK else "degraded"
        return HealthView(status=status, version=__version__, parts=parts)

    async def _check_leader(self) -> str:
        """Whether some manager leads: without one, no session is scheduled."""
        if self._leases is None:
            return OK
        found: list[Lease | None] = []

        async def current(leases: Leases) -> None:
            found.append(await leases.current(LEASE))

        outcome = await _outcome(current(self._leases))
        return "no manager leads" if found == [None] else outcome

    async def _check_manager(self) -> tuple[str, str]:
        """The state of the manager, and the number of agents with a fresh heartbeat."""
        try:
            async with asyncio.timeout(MANAGER_CHECK_S):
                fresh = await self._agents.fresh()
        except (SokovanError, TimeoutError, RuntimeError):  # RuntimeError: the event loop has been closed
            return UNREACHABLE, "unknown"
        return OK, f"{len(fresh)} with a fresh heartbeat"


async def _outcome(work: Awaitable[object]) -> str:
    """`ok`, or how a check of the store failed."""
    try:
        async with asyncio.timeout(STORE_CHECK_S):
            await work
    except SokovanError as error:
        return f"{error.code}: {error.message}"
    except TimeoutError:
        return f"no answer within {STORE_CHECK_S:g} s"
    return OK


async def _write_nothing(_unit: UnitOfWork) -> None:
    """A unit of work without content: its commit alone shows that the store can be written."""
