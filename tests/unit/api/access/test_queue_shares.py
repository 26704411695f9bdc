"""Shares of queues are checked against those above them when a queue is changed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ApiHarness


async def put(api: ApiHarness, name: str, **fields: Any) -> tuple[int, str]:
    answer = await api.call("PUT", f"/queues/{name}", json={"name": name, **fields})
    return answer.status_code, answer.json().get("code", "")


@pytest.mark.slow
async def test_a_tree_of_guarantees_is_built_from_the_top(api: ApiHarness) -> None:
    child = {"parent": "top", "guarantee": {"cpu": 3}}
    assert await put(api, "top") == (201, "")
    assert await put(api, "a", **child) == (422, "invalid-queues")
    assert await put(api, "top", guarantee={"cpu": 5}) == (200, "")
    assert await put(api, "a", **child) == (201, "")
    assert await put(api, "b", **child) == (422, "invalid-queues")
    assert await put(api, "b", parent="top", guarantee={"cpu": 2}) == (201, "")
    assert await put(api, "top", guarantee={"cpu": 4}) == (422, "invalid-queues")
    assert (await api.get("/queues/top")).json()["guarantee"] == {"cpu": "5"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "alone"])
async def test_queues_below_the_root_share_the_whole_cluster(api: ApiHarness, name: str) -> None:
    status, _ = await put(api, name, guarantee={"cpu": 1000}, deserved={"cpu": 2000}, reclaimable=False)
    assert status in {200, 201}
    assert (await api.get(f"/queues/{name}")).json()["reclaimable"] is False
