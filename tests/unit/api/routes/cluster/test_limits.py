"""Limits of owners and what they hold, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")


async def limits(api: ApiHarness, user: str = ADMIN, query: str = "") -> list[dict[str, Any]]:
    answer = await api.get(f"/limits{query}", user=user)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def limited(api: ApiHarness) -> None:
    """A quota on users of both tenants, and on a domain."""
    quota = {"name": "few", "slots_max": {"cpu": 4, "cuda.device": 2}, "sessions_max": 3}
    assert (await api.call("PUT", "/policies/few", json=quota)).status_code in {200, 201}
    for tenant in ("north", "south"):
        user = (await api.get(f"/users/{member(tenant)}")).json()
        body = {**user, "policy": "few"}
        assert (await api.call("PUT", f"/users/{member(tenant)}", json=body)).status_code == 200
    domain = (await api.get("/domains/north")).json()
    assert (await api.call("PUT", "/domains/north", json={**domain, "policy": "few"})).status_code == 200


async def test_what_is_held_now_is_beside_the_limit(api: ApiHarness) -> None:
    await limited(api)
    before = {one["name"]: one for one in await limits(api, query="?kind=user")}[NORTH]
    assert (before["policy"], before["limits"], before["sessions_max"]) == ("few", {"cpu": 4000, "cuda.device": 2}, 3)
    await api.run("holder", NORTH)
    after = {(one["kind"], one["name"]): one for one in await limits(api)}
    for owner in (("user", NORTH), ("domain", "north")):
        assert after[owner]["sessions"] == before["sessions"] + 1
        assert after[owner]["used"]["cpu"] > before["used"]["cpu"]
    assert after["user", member("south")]["sessions"] == 0


async def test_users_see_their_own_limits_and_their_domain_only(api: ApiHarness) -> None:
    await limited(api)
    assert [(one["kind"], one["name"]) for one in await limits(api, NORTH)] == [("domain", "north"), ("user", NORTH)]
    south = [one["name"] for one in await limits(api, domain_admin("south"))]
    assert (member("south") in south, NORTH in south, "north" in south) == (True, False, False)


async def test_limits_come_page_by_page_and_by_kind(api: ApiHarness) -> None:
    await limited(api)
    first = (await api.get("/limits?limit=1")).json()
    assert len(first["items"]) == 1
    rest = (await api.get(f"/limits?cursor={first['next']}")).json()["items"]
    assert first["items"] + rest == await limits(api)
    assert {one["kind"] for one in await limits(api, query="?kind=domain")} == {"domain"}
    assert (await api.get("/limits?kind=queue")).status_code == 422
