"""Views of deployments."""

from __future__ import annotations

import pytest

from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.api.routes.serving.test_deployments import create

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")


@pytest.mark.slow
async def test_a_view_names_the_gateway_and_what_is_stored(api: ApiHarness) -> None:
    await create(api, "viewed", access="project", model_names=["a", "b"])
    view = (await api.get("/deployments/viewed", user=NORTH)).json()
    assert (view["access"], view["models"], view["url"]) == ("project", ["a", "b"], "http://gateway.test/v1")
    assert (view["user"], view["health"], view["rollout"], view["replicas"]) == (NORTH, "unhealthy", None, [])
