"""Deployments that callers see, and references to them."""

from __future__ import annotations

import pytest

from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member
from tests.unit.api.routes.serving.test_deployments import create

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH, DOMAIN_ADMIN = member("north"), member("south"), domain_admin("north")


@pytest.mark.slow
async def test_each_caller_sees_own_or_administered_deployments(api: ApiHarness) -> None:
    await create(api, "seen", NORTH)
    seen = {user: (await api.get("/deployments/seen", user=user)).status_code for user in (NORTH, SOUTH, DOMAIN_ADMIN)}
    assert seen == {NORTH: 200, SOUTH: 404, DOMAIN_ADMIN: 200}
    assert (await api.get(f"/deployments?user={NORTH}", user=SOUTH)).json()["items"] == []


@pytest.mark.slow
async def test_a_name_that_two_projects_have_is_ambiguous_to_an_administrator(api: ApiHarness) -> None:
    await create(api, "twice", NORTH)
    await create(api, "twice", SOUTH)
    ambiguous = await api.get("/deployments/twice", user=ADMIN)
    assert (ambiguous.status_code, "ambiguous" in ambiguous.text) == (409, True)
    assert (await api.get("/deployments/twice", user=SOUTH)).json()["user"] == SOUTH


@pytest.mark.parametrize("ref", ["nowhere", "a%00b", "%20", "x" * 200])
async def test_what_is_no_name_is_not_found(api: ApiHarness, ref: str) -> None:
    assert (await api.get(f"/deployments/{ref}", user=NORTH)).status_code == 404
