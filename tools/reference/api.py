"""The routes of the REST API, from its OpenAPI document."""

from __future__ import annotations

from typing import Any

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.local.secret_box import AesSecretBox, SecretKey
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.store import SqlStore
from sokovan.api.app import make_app
from sokovan.api.context import ApiDependencies
from sokovan.api.settings import ApiSettings
from sokovan.entrypoints.serving import serving_controllers
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.intake.submissions import Submissions
from sokovan.wire.frames import Hello, HelloRefused

INTRODUCTION = """\
# REST API

Every request except `GET /livez` needs `Authorization: Bearer TOKEN`. Bodies are JSON; unknown keys are refused. Errors
are `application/problem+json` with a stable `code` and a `hint` ([error codes](errors.md)). `GET /api/v1/openapi.json`
returns the OpenAPI document.

`{ref}` is a session's id, its name, or an unambiguous prefix of one.

| Method | Path | Status codes | Summary |
|---|---|---|---|
"""


def page() -> str:
    """The page of all routes, by path."""
    rows = [
        f"| {method.upper()} | `{path}` | {', '.join(sorted(route['responses']))} | {_summary(route)} |\n"
        for path, routes in sorted(openapi_document()["paths"].items())
        for method, route in sorted(routes.items())
    ]
    return INTRODUCTION + "".join(rows)


def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of a server; nothing is opened or served for it."""
    clock = SystemClock()
    ids, hints, telemetry = SortableIds(clock), InProcessHints(clock), PrometheusTelemetry()
    store = SqlStore(Database(DatabaseSettings("sqlite://"), clock=clock), ids=ids)
    box = AesSecretBox(lambda: [SecretKey.new()])
    submissions = Submissions(store, ids=ids, clock=clock, names=lambda: "unused", secrets=box)
    controller = SchedulingController(store, submissions, hints=hints)
    deployments, routes = serving_controllers(store, controller, hints=hints, ids=ids, pepper=bytes(32), box=box)
    parts = ApiDependencies(
        store=store,
        controller=controller,
        deployments=deployments,
        routes=routes,
        hints=hints,
        events=InProcessEventBus(clock),
        agents=InProcessAgentStates(clock),
        gateway=LinkedAgents(clock, admit=_refuse, on_heartbeat=_ignore),
        clock=clock,
        ids=ids,
        telemetry=telemetry,
        metrics=telemetry.exposition,
    )
    return make_app(parts, ApiSettings(pepper=bytes(32))).openapi()


async def _refuse(_hello: Hello, _token: str) -> HelloRefused:
    return HelloRefused(code="closed", message="no agent is served here", final=True)


async def _ignore(*_messages: object) -> None:
    """Ignore messages; no agent is connected."""


def _summary(route: dict[str, Any]) -> str:
    return str(route.get("summary") or route.get("description") or "").partition("\n")[0]
