"""Plans and explanations of deployments over HTTP."""

from __future__ import annotations

import pytest

from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.api.routes.serving.test_deployments import TOY, create

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")


@pytest.mark.slow
async def test_a_plan_shows_the_command_and_stores_nothing(api: ApiHarness) -> None:
    body = {"name": "planned", "revision": {**TOY, "arguments": ["--tokens", "3"]}}
    planned = (await api.call("POST", "/deployments/plan", json=body, user=NORTH)).json()
    assert "{port}" in planned["command"]
    assert planned["command"][-2:] == ["--tokens", "3"]
    assert planned["probe"]["path"] == "/health"
    assert (await api.get("/deployments/planned", user=NORTH)).status_code == 404


@pytest.mark.slow
async def test_why_says_that_replicas_are_on_their_way(api: ApiHarness) -> None:
    await create(api, "waits", replicas_min=2)
    why = (await api.get("/deployments/waits/why", user=NORTH)).json()
    assert (why["code"], why["health"]) == ("REPLICAS_WAIT", "unhealthy")
    assert why["summary"].startswith("0 of 2 replicas serve")
