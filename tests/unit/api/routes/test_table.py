"""Every operation of the API."""

from __future__ import annotations

import pytest

from sokovan.api.routes.table import every_operation
from tests.unit.api.little_api import LittleApi

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What people and programs rely on: a line that goes away is a break of the API.
PROMISED = """
GET /livez
GET /readyz
GET /metrics
GET /api/v1/openapi.json
GET /api/v1/whoami
GET /api/v1/health
POST /api/v1/sessions
GET /api/v1/sessions
POST /api/v1/sessions/plan
GET /api/v1/sessions/waiting
GET /api/v1/sessions/{ref}
DELETE /api/v1/sessions/{ref}
POST /api/v1/sessions/{ref}/cancel
GET /api/v1/sessions/{ref}/why
GET /api/v1/sessions/{ref}/history
GET /api/v1/sessions/{ref}/kernels
GET /api/v1/sessions/{ref}/events
GET /api/v1/sessions/{ref}/kernels/{index}/log
GET /api/v1/sessions/{ref}/log
GET /api/v1/events
GET /api/v1/agents
GET /api/v1/agents/{name:path}
PATCH /api/v1/agents/{name:path}
GET /api/v1/agents/{name:path}/history
POST /api/v1/keys
GET /api/v1/keys
DELETE /api/v1/keys/{access_key:path}
"""
CATALOG = ("scaling-groups", "queues", "images", "domains", "groups", "users", "policies")


async def test_every_promised_operation_is_there_and_no_other(api: LittleApi) -> None:
    promised = set(PROMISED.split("\n")[1:-1])
    for kind in CATALOG:
        one = f"/api/v1/{kind}/{{name:path}}"
        promised |= {f"GET /api/v1/{kind}", f"GET {one}", f"PUT {one}", f"DELETE {one}"}
    found = [f"{one.method} {one.path}" for one in every_operation(api.app.state.context, dict)]
    assert set(found) == promised
    assert len(found) == len(set(found))


async def test_an_exact_path_is_tried_before_one_that_takes_any_name(api: LittleApi) -> None:
    paths = [one.path for one in every_operation(api.app.state.context, dict)]
    for exact, general in (
        ("/api/v1/sessions/plan", "/api/v1/sessions/{ref}"),
        ("/api/v1/sessions/waiting", "/api/v1/sessions/{ref}"),
        ("/api/v1/agents/{name:path}/history", "/api/v1/agents/{name:path}"),
    ):
        assert paths.index(exact) < paths.index(general)
