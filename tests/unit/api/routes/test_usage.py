"""Past usage over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.owners.past_usage import UsageKey, UsageScope
from sokovan.testing.ledger_rows import add_past_usage
from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


async def used(api: ApiHarness, scope: UsageScope, name: str, seconds: int = 60) -> None:
    key = UsageKey("default", scope, name, "cpu")
    await add_past_usage(api.cluster.store, key, seconds * 1000)


async def seen(api: ApiHarness, user: str, query: str = "") -> list[tuple[str, str]]:
    items: list[dict[str, Any]] = (await api.get(f"/usage{query}", user=user)).json()["items"]
    return [(item["kind"], item["name"]) for item in items]


@pytest.mark.slow
async def test_callers_see_their_own_usage_their_groups_and_all_queues(api: ApiHarness) -> None:
    for scope, name in (
        (UsageScope.USER, NORTH), (UsageScope.USER, SOUTH), (UsageScope.GROUP, "north-group"),
        (UsageScope.GROUP, "south-group"), (UsageScope.QUEUE, "default"), (UsageScope.USER, "removed"),
    ):  # fmt: skip
        await used(api, scope, name)
    own = [("group", "north-group"), ("queue", "default"), ("user", NORTH)]
    assert await seen(api, NORTH) == own
    assert set(own) <= set(await seen(api, domain_admin("north")))
    assert ("user", SOUTH) not in await seen(api, domain_admin("north"))
    assert {("user", SOUTH), ("user", "removed"), *own} <= set(await seen(api, ADMIN))


@pytest.mark.slow
async def test_usage_is_weighted_by_slot_and_divided_by_the_weight_of_the_owner(api: ApiHarness) -> None:
    await used(api, UsageScope.GROUP, "north-group", 600)
    body = {"name": "north-group", "domain": "north", "weight": 3}
    assert (await api.call("PUT", "/groups/north-group", json=body, user=ADMIN)).status_code == 200
    items = (await api.get("/usage?scaling_group=default", user=ADMIN)).json()["items"]
    (group,) = [item for item in items if (item["kind"], item["name"]) == ("group", "north-group")]
    assert group["weight"] == 3
    assert group["weighted"] == pytest.approx(4 * group["slots"]["cpu"], abs=4)
    assert group["share"] == group["weighted"] // 3


async def test_the_usage_of_an_unknown_scaling_group_is_an_error_with_the_nearest_name(api: ApiHarness) -> None:
    answer = await api.get("/usage?scaling_group=defualt", user=ADMIN)
    assert (answer.status_code, answer.json()["hint"]) == (404, "did you mean default?")
    assert (await api.get("/usage?scaling_group=%20", user=ADMIN)).status_code == 422


async def test_a_domain_admin_does_not_set_the_weight_of_a_group(api: ApiHarness) -> None:
    for name in ("north-lab-2", "north-group"):
        body = {"name": name, "domain": "north", "weight": 9}
        answer = await api.call("PUT", f"/groups/{name}", json=body, user=domain_admin("north"))
        assert answer.status_code == 403
