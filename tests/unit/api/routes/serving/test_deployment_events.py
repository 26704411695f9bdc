"""Events of deployments over HTTP."""

from __future__ import annotations

import pytest

from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.api.routes.serving.test_deployments import create

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")


async def test_events_of_a_deployment_are_listed(api: ApiHarness) -> None:
    await create(api, "eventful")
    found = (await api.get("/deployments/eventful/events", user=NORTH)).json()
    assert [(line["subject"], line["trigger"]) for line in found["lines"]] == [("deployment", "created")]
    assert (await api.get("/deployments/eventful/events?limit=0", user=NORTH)).status_code == 422
