"""The dependencies of the API and the context that every route works with."""

from __future__ import annotations

from dataclasses import fields

import pytest

from sokovan.api.context import ApiContext, ApiDependencies
from sokovan.scheduling.registry import BUILT_IN
from tests.unit.api.api_harness import PEPPER, ApiHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow
async def test_one_hub_and_one_authenticator_serve_every_request(api: ApiHarness) -> None:
    context: ApiContext = api.app.state.context
    assert context.dependencies.controller is api.dependencies.controller
    assert context.dependencies.store is context.store
    assert context.settings.pepper == PEPPER
    assert context.streams.limits is context.settings.streams
    found = await context.authenticator.principal(api.tokens["root"])
    assert found is not None
    assert found[1].user.name == "root"


@pytest.mark.slow
async def test_without_plugins_of_its_own_a_system_has_the_built_in_ones(api: ApiHarness) -> None:
    assert api.dependencies.plugins is BUILT_IN


async def test_everything_else_must_be_given() -> None:
    required = {one.name for one in fields(ApiDependencies)} - {"plugins", "leases"}
    assert required == {
        *("store", "controller", "hints", "events", "agents", "gateway", "clock", "ids", "telemetry", "metrics"),
        *("uploads", "files", "settings", "deployments", "routes", "gateway_url", "joining", "disconnect", "models"),
    }
