"""Endpoint tokens over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.api.routes.serving.test_deployments import create

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


async def make(api: ApiHarness, deployment: str, user: str = NORTH, **fields: Any) -> Any:
    return await api.call("POST", f"/deployments/{deployment}/tokens", json=fields, user=user)


@pytest.mark.slow
async def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(api: ApiHarness) -> None:
    await create(api, "keyed")
    created = await make(api, "keyed", name="ci", requests_per_minute=60)
    token = created.json()
    assert created.status_code == 201
    assert token["token"].startswith("ske_")
    listed = await api.get("/deployments/keyed/tokens", user=NORTH)
    assert [(one["id"], one["requests_per_minute"]) for one in listed.json()["items"]] == [(token["id"], 60)]
    assert token["token"] not in listed.text
    path = f"/deployments/keyed/tokens/{token['id']}"
    assert (await api.call("DELETE", path, user=SOUTH)).status_code == 404
    assert (await api.call("DELETE", path, user=NORTH)).status_code == 204
    assert (await api.call("DELETE", path, user=NORTH)).status_code == 404
    assert (await api.get("/deployments/keyed/tokens", user=NORTH)).json()["items"] == []


@pytest.mark.slow
async def test_a_token_is_made_by_the_owner_within_limits(api: ApiHarness) -> None:
    await create(api, "limited")
    assert (await make(api, "limited", user=SOUTH)).status_code == 404
    assert (await make(api, "limited", requests_per_minute=0)).status_code == 422
    assert "token: expires_at" in (await make(api, "limited", expires_at="tomorrow")).text
    past = await make(api, "limited", expires_at="1999-01-31T18:00:00Z")
    assert (past.status_code, "is in the past" in past.text) == (422, True)
    assert (await make(api, "nowhere")).status_code == 404


@pytest.mark.slow
async def test_a_token_for_a_model_that_the_deployment_does_not_have_is_refused(api: ApiHarness) -> None:
    await create(api, "modelled")
    refused = await make(api, "modelled", models=["modelled", "another"])
    assert refused.status_code == 422
    assert "another" in refused.text
    assert "deployment modelled, which answers to modelled" in refused.text
    assert (await make(api, "modelled", models=["modelled"])).status_code == 201
