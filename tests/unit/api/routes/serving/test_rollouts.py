"""Rollouts over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.api.routes.serving.test_deployments import TOY, create

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


async def post(api: ApiHarness, path: str, body: Any = None, user: str = NORTH) -> Any:
    return await api.call("POST", f"/deployments/{path}", json=body, user=user)


@pytest.mark.slow
async def test_an_update_adds_a_revision_and_begins_a_rollout(api: ApiHarness) -> None:
    await create(api, "updated")
    body = {"revision": {**TOY, "arguments": ["--tokens", "9"]}, "rollout": {"strategy": "canary"}}
    changed = await post(api, "updated/update", body)
    view = changed.json()
    assert (changed.status_code, view["rollout"]["revision_to"], view["rollout"]["strategy"]) == (202, 2, "canary")
    assert (await post(api, "updated/update", body)).status_code == 409
    revisions = (await api.get("/deployments/updated/revisions", user=NORTH)).json()["items"]
    assert [one["number"] for one in revisions] == [2, 1]
    assert revisions[0]["revision"]["arguments"] == ["--tokens", "9"]


@pytest.mark.slow
async def test_a_rollback_ends_the_rollout(api: ApiHarness) -> None:
    await create(api, "undone")
    await post(api, "undone/update", {"revision": {**TOY, "arguments": ["--tokens", "9"]}})
    assert (await post(api, "undone/rollback", {})).json()["rollout"]["status"] == "rolling_back"


async def test_what_cannot_be_rolled_back_or_promoted_is_a_conflict(api: ApiHarness) -> None:
    await create(api, "steady")
    assert (await post(api, "steady/rollback", {})).status_code == 409
    assert (await post(api, "steady/rollback", {"revision": 7})).status_code == 404
    assert (await post(api, "steady/promote")).status_code == 409


async def test_a_revision_that_cannot_be_is_refused(api: ApiHarness) -> None:
    await create(api, "refused")
    refused = await post(api, "refused/update", {"revision": {"engine": "toys"}})
    assert (refused.status_code, "did you mean toy?" in refused.text) == (422, True)
    assert (await post(api, "refused/update", {"revision": TOY}, user=SOUTH)).status_code == 404
