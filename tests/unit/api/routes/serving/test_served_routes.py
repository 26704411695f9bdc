"""Routes of deployments over HTTP."""

from __future__ import annotations

import pytest

from sokovan.domain.serving.records import ProxyRecord
from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member
from tests.unit.api.routes.serving.test_deployments import create

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


async def test_a_route_is_listed_shown_and_set(api: ApiHarness) -> None:
    await create(api, "routed")
    path = "/deployments/routed/route"
    assert (await api.get(path, user=NORTH)).json()["status"] == "pending"
    body = {"weights": {"0": 5}, "model_names": ["routed", "other", "routed"], "routing": "sticky", "access": "project"}
    view = (await api.call("POST", path, json=body, user=NORTH)).json()
    assert (view["weights"], view["models"], view["routing"]) == ({"0": 5}, ["routed", "other"], "sticky")
    again = (await api.call("POST", path, json={"weights": {}, "sticky_by": "cookie:sid"}, user=NORTH)).json()
    assert (again["weights"], again["access"], again["shares"]) == ({}, "project", {})
    assert (view["sticky_by"], again["sticky_by"]) == ("header:x-session-id", "cookie:sid")
    assert (await api.call("POST", path, json={"shares": {"2": 30}}, user=NORTH)).status_code == 409
    assert "routed" in [one["name"] for one in (await api.get("/routes", user=NORTH)).json()["items"]]
    assert (await api.get("/routes", user=SOUTH)).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"weights": {"x": 1}}, "weights/x"),
        ({"weights": {"0": -1}}, "weights/0"),
        ({"weights": {"0": 101}}, "weights/0"),
        ({"shares": {"2": 101}}, "shares/2"),
        ({"sticky_by": "cookie:a b"}, "sticky_by"),
        ({"sticky_by": "header:X-Upper"}, "sticky_by"),
        ({"weight": 3}, "weight"),
    ],
)
async def test_a_wrong_weight_is_refused_where_it_is(api: ApiHarness, body: dict[str, object], where: str) -> None:
    await create(api, "weighed")
    refused = await api.call("POST", "/deployments/weighed/route", json=body, user=NORTH)
    assert refused.status_code == 422
    assert where in [one["where"] for one in refused.json()["problems"]], refused.text
    assert (await api.call("POST", "/deployments/weighed/route", json={}, user=SOUTH)).status_code == 404


async def test_gateways_are_listed_for_administrators_only(api: ApiHarness) -> None:
    report = ProxyRecord(
        proxy_id="gateway-7", incarnation=1, epoch="old", version=1, reported_ms=0, url="https://gateway-7:7648"
    )
    await api.cluster.store.run(lambda unit: unit.proxies.report(report))
    found = (await api.get("/gateways", user=ADMIN)).json()["items"]
    [seen] = [one for one in found if one["proxy"] == "gateway-7"]
    assert (seen["url"], seen["reporting"], seen["current"]) == ("https://gateway-7:7648", True, False)
    for other in (NORTH, domain_admin("north")):
        assert (await api.get("/gateways", user=other)).status_code == 403
