"""Deployments over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ADMIN, ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
TOY = {"engine": "toy", "resources": {"cpu": "1", "mem": "1GiB"}}


async def create(api: ApiHarness, name: str, user: str = NORTH, **fields: Any) -> Any:
    body = {"name": name, "revision": TOY, **fields}
    return await api.call("POST", "/deployments", json=body, user=user)


@pytest.mark.slow
async def test_a_deployment_is_created_shown_listed_and_deleted(api: ApiHarness) -> None:
    created = await create(api, "first", replicas_min=2)
    view = created.json()
    assert (created.status_code, view["status"], view["replicas_desired"]) == (201, "pending", 2)
    assert (view["models"], view["url"], view["revision"]["number"]) == (["first"], "http://gateway.test/v1", 1)
    assert created.headers["location"] == f"/api/v1/deployments/{view['id']}"
    assert (await api.get("/deployments/first", user=NORTH)).json()["id"] == view["id"]
    assert view["id"] in [one["id"] for one in (await api.get("/deployments", user=NORTH)).json()["items"]]
    ended = await api.call("DELETE", "/deployments/first", user=NORTH)
    assert (ended.status_code, ended.json()["status"]) == (202, "destroying")


@pytest.mark.slow
async def test_the_same_key_and_body_give_the_same_deployment(api: ApiHarness) -> None:
    body = {"name": "once", "revision": TOY}
    headers = {"Idempotency-Key": "k-once"}
    first = await api.call("POST", "/deployments", json=body, user=NORTH, headers=headers)
    again = await api.call("POST", "/deployments", json=body, user=NORTH, headers=headers)
    other = await api.call("POST", "/deployments", json={**body, "replicas_min": 3}, user=NORTH, headers=headers)
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 422)
    assert first.json()["id"] == again.json()["id"]


async def test_two_deployments_of_a_project_have_two_names(api: ApiHarness) -> None:
    await create(api, "taken")
    assert (await create(api, "taken")).status_code == 409


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"revision": {"engine": "vlm", "model": "a/b"}}, "did you mean vllm?"),
        ({"revision": {"engine": "vllm"}}, "needs a model"),
        ({"revision": {"engine": "vllm", "model": "/etc/passwd"}}, "none of the mounted folders"),
        ({"revision": {**TOY, "arguments": ["--port=1"]}}, "set by the system"),
        ({"revision": {"engine": "custom"}}, "needs a command"),
        ({"revision": {**TOY, "resources": {"cpu": "lots"}}}, "cpu"),
        ({"replicas_min": -1}, "replicas_min"),
        ({"replicas_min": 10**9}, "replicas_min"),
        ({"replicas_min": 3, "replicas_max": 2}, "replicas_max"),
        ({"name": "a b"}, "name"),
        ({"replicaz": 1}, "replicaz"),
        ({"group": "south-group"}, "group"),
    ],
)
async def test_a_deployment_that_cannot_be_is_refused_with_the_reason(
    api: ApiHarness, fields: dict[str, Any], said: str
) -> None:
    refused = await api.call("POST", "/deployments", json={"name": "wrong", "revision": TOY, **fields}, user=NORTH)
    assert refused.status_code == 422, refused.text
    assert said in refused.text


async def test_a_deployment_of_another_tenant_does_not_exist(api: ApiHarness) -> None:
    await create(api, "mine")
    for method, path in (
        ("GET", "/deployments/mine"),
        ("DELETE", "/deployments/mine"),
        ("GET", "/deployments/mine/why"),
        ("GET", "/deployments/mine/revisions"),
        ("POST", "/deployments/mine/promote"),
    ):
        assert (await api.call(method, path, user=SOUTH)).status_code == 404
    assert (await api.call("POST", "/deployments/mine/scale", json={"replicas_min": 9}, user=SOUTH)).status_code == 404
    assert (await api.get("/deployments", user=SOUTH)).json()["items"] == []
    assert (await api.get("/deployments/mine", user=ADMIN)).status_code == 200


async def test_bounds_are_set_and_checked(api: ApiHarness) -> None:
    await create(api, "scaled")
    path = "/deployments/scaled/scale"
    body = {"replicas_min": 0, "replicas_max": 8, "scaling": {"metric": "concurrency", "target": 32}}
    view = (await api.call("POST", path, json=body, user=NORTH)).json()
    assert (view["replicas_min"], view["replicas_max"], view["scaling"]["target"]) == (0, 8, 32)
    for wrong in (-1, 10**9):
        assert (await api.call("POST", path, json={"replicas_min": wrong}, user=NORTH)).status_code == 422


@pytest.mark.slow
async def test_deployments_are_listed_in_pages(api: ApiHarness) -> None:
    for name in ("page-1", "page-2", "page-3"):
        await create(api, name)
    seen, cursor = [], ""
    while True:
        page = (await api.get(f"/deployments?mine=true&limit=2{cursor}", user=NORTH)).json()
        seen += [one["name"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen[:3] == ["page-3", "page-2", "page-1"]
    assert len(seen) == len(set(seen))
