"""The topology over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ApiHarness, api_harness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODY = {"tiers": [{"name": "rack", "label": "rack"}]}


async def put(api: ApiHarness, body: dict[str, Any], *, query: str = "", **options: Any) -> Any:
    return await api.call("PUT", f"/topology{query}", json=body, **options)


@pytest.mark.slow
async def test_every_user_sees_the_topology_and_only_administrators_change_it(api: ApiHarness) -> None:
    for user in (member("north"), domain_admin("south"), "root"):
        assert (await api.get("/topology", user=user)).status_code == 200
    for user in (member("north"), domain_admin("south")):
        assert (await put(api, BODY, user=user)).status_code == 403
        assert (await api.call("DELETE", "/topology", user=user)).status_code == 403
        assert (await api.call("PATCH", "/agents/a1/labels", json={}, user=user)).status_code == 403


@pytest.mark.slow
async def test_a_topology_is_checked_applied_and_removed(api: ApiHarness) -> None:
    await api.cluster.agent("racked", devices=False, labels={"rack": "r9"})
    checked = (await put(api, BODY, query="?dry_run=true")).json()
    assert (checked["applied"], checked["hypernodes"]) == (False, 1)
    assert (await api.get("/topology")).json()["tiers"] == []
    assert (await put(api, BODY)).json() == {**checked, "applied": True}
    tree = {node["name"]: node for node in (await api.get("/topology")).json()["tree"]}
    assert (tree["racked"]["parent"], tree["r9"]["origin"]) == ("r9", "label")
    assert (await api.call("DELETE", "/topology?dry_run=true")).json()["hypernodes"] == 0
    assert (await api.call("DELETE", "/topology")).json()["applied"]
    assert (await api.call("DELETE", "/topology")).status_code == 404
    assert (await api.call("DELETE", "/topology?dry_run=true")).status_code == 404


async def test_the_tree_is_sent_again_only_if_it_differs() -> None:
    async with api_harness() as api:
        first = await api.get("/topology")
        tag = first.headers["ETag"]
        again = await api.call("GET", "/topology", headers={"If-None-Match": f'"other", {tag}'})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        await api.cluster.agent("another", devices=False)
        changed = await api.call("GET", "/topology", headers={"If-None-Match": tag})
        assert changed.status_code == 200
        assert len(changed.json()["tree"]) == len(first.json()["tree"]) + 1
        assert (await api.call("PATCH", "/agents/another", json={"action": "drain"})).status_code == 200
        drained = (await api.get("/topology")).json()["tree"]
        assert {node["name"]: node["status"] for node in drained}["another"] == "draining"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tiers": [], "racks": []},
        {"tiers": [{"name": "rack"}, {"name": "rack"}]},
        {"tiers": [{"name": f"t{number}"} for number in range(65)]},
        {"tiers": [{"name": "a b"}]},
        {"tiers": [{"name": "rack"}], "hypernodes": [{"name": "x", "tier": "pod", "members": ["a1"]}]},
        {"tiers": [{"name": "rack"}], "hypernodes": [{"name": "x", "tier": "rack", "members": ["nobody"]}]},
        {"tiers": [{"name": "rack"}], "hypernodes": [{"name": "x", "tier": "rack", "members": []}]},
    ],
)
async def test_a_bad_topology_is_refused_and_nothing_is_stored(api: ApiHarness, body: dict[str, Any]) -> None:
    for query in ("", "?dry_run=true"):
        assert (await put(api, body, query=query)).status_code == 422
    assert (await api.get("/topology")).json()["tiers"] == []
