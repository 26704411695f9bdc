"""Routes of domains, groups, users and policies."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Group, Role, User
from tests.unit.api.api_harness import ADMIN, ApiHarness, add_key, api_harness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

PEER = Role.DOMAIN_ADMIN
NORTH, DOMAIN_ADMIN = member("north"), domain_admin("north")


async def put_user(api: ApiHarness, name: str, user: str = DOMAIN_ADMIN, **fields: Any) -> int:
    body = {"name": name, "domain": "north", **fields}
    return (await api.call("PUT", f"/users/{name}", json=body, user=user)).status_code


@pytest.mark.slow
async def test_a_domain_admin_creates_users_and_groups_of_the_own_domain(api: ApiHarness) -> None:
    assert await put_user(api, "ann") == 201
    assert await put_user(api, "ben", role="domain-admin", groups=["north-group"]) == 201
    body = {"name": "north-lab", "domain": "north"}
    assert (await api.call("PUT", "/groups/north-lab", json=body, user=DOMAIN_ADMIN)).status_code == 201
    assert await put_user(api, "ann", groups=["north-lab"]) == 200
    assert (await api.call("DELETE", "/users/ben", user=DOMAIN_ADMIN)).status_code == 204


@pytest.mark.slow
async def test_the_keys_of_a_user_are_revoked_with_the_user(api: ApiHarness) -> None:
    await put_user(api, "leaver")
    for name in ("leaver", "leaver-2"):
        await add_key(api, "leaver", named=name)
    assert (await api.get("/whoami", user="leaver-2")).status_code == 200
    assert (await api.call("DELETE", "/users/leaver", user=DOMAIN_ADMIN)).status_code == 204
    assert (await api.get("/users/leaver")).status_code == 404
    keys = (await api.get("/keys?limit=100")).json()["items"]
    assert [one for one in keys if one["user"] == "leaver"] == []
    for name in ("leaver", "leaver-2"):
        assert (await api.get("/whoami", user=name)).status_code == 401


async def test_a_domain_admin_grants_no_higher_role(api: ApiHarness) -> None:
    assert await put_user(api, "usurper", role="admin") == 403
    assert await put_user(api, NORTH, role="admin") == 403
    assert (await api.get(f"/users/{NORTH}")).json()["role"] == "user"
    assert (await api.get("/users/usurper")).status_code == 404


async def test_a_domain_admin_has_no_access_to_other_domains(api: ApiHarness) -> None:
    assert await put_user(api, "spy", domain="south") == 404
    assert await put_user(api, member("south")) == 404
    assert await put_user(api, "spy", groups=["south-group"]) == 404
    body = {"name": "outpost", "domain": "south"}
    assert (await api.call("PUT", "/groups/outpost", json=body, user=DOMAIN_ADMIN)).status_code == 404
    assert (
        await api.call("PUT", "/groups/south-group", json={**body, "name": "south-group"}, user=DOMAIN_ADMIN)
    ).is_error
    assert (await api.call("DELETE", "/groups/south-group", user=DOMAIN_ADMIN)).status_code == 404
    assert (await api.call("DELETE", f"/users/{member('south')}", user=DOMAIN_ADMIN)).status_code == 404
    assert (await api.get(f"/users/{member('south')}")).json()["domain"] == "south"


async def test_a_domain_admin_does_not_change_an_administrator_of_the_own_domain(api: ApiHarness) -> None:
    await api.cluster.put(User("chief", "north", role=Role.ADMIN))
    assert await put_user(api, "chief") == 403
    assert (await api.call("DELETE", "/users/chief", user=DOMAIN_ADMIN)).status_code == 403
    assert (await api.get("/users/chief")).json()["role"] == "admin"


async def test_a_domain_admin_does_not_change_the_limits_that_bind_domain_admins(api: ApiHarness) -> None:
    own = f"/users/{DOMAIN_ADMIN}"
    await api.cluster.put(ResourcePolicy("bound"), User(DOMAIN_ADMIN, "north", ("north-group",), "bound", PEER))
    await api.cluster.put(Group("north-group", "north", policy="bound"), User("peer", "north", role=PEER))
    await add_key(api, "peer")
    body = {"name": DOMAIN_ADMIN, "domain": "north", "groups": ["north-group"], "role": "domain-admin"}
    for given in ({"policy": None}, {"policy": "bound", "groups": []}, {"policy": "bound", "weight": 9}):
        for user in (DOMAIN_ADMIN, "peer"):
            assert (await api.call("PUT", own, json={**body, **given}, user=user)).status_code == 403
    group = {"name": "north-group", "domain": "north"}
    for user in (DOMAIN_ADMIN, "peer"):
        assert (await api.call("PUT", "/groups/north-group", json=group, user=user)).status_code == 403
    assert (await api.get(own)).json()["policy"] == "bound"
    assert (await api.get("/groups/north-group")).json()["policy"] == "bound"
    assert (await api.call("PUT", own, json={**body, "policy": "bound"}, user=DOMAIN_ADMIN)).status_code == 200
    assert (await api.call("PUT", "/groups/north-group", json=group)).status_code == 200
    assert (await api.call("PUT", own, json=body)).status_code == 200


async def test_a_user_without_groups_does_not_count_against_the_group_of_another_domain(api: ApiHarness) -> None:
    await api.cluster.put(User("loner", "north"), User("local", "default"))
    for name in ("loner", "local"):
        await add_key(api, name)
    refused = await api.call("POST", "/sessions", json={"command": ["true"]}, user="loner")
    assert (refused.status_code, [one["where"] for one in refused.json()["problems"]]) == (422, ["group"])
    assert (await api.call("POST", "/sessions", json={"command": ["true"]}, user="local")).status_code == 201


async def test_a_group_does_not_move_to_another_domain(api: ApiHarness) -> None:
    await api.call("PUT", "/groups/settled", json={"name": "settled", "domain": "north"})
    moved = await api.call("PUT", "/groups/settled", json={"name": "settled", "domain": "south"})
    assert (moved.status_code, moved.json()["code"]) == (409, "conflict")


async def test_a_group_of_another_domain_takes_no_members(api: ApiHarness) -> None:
    assert await put_user(api, "mixed", user=ADMIN, groups=["south-group"]) == 404


async def test_no_user_removes_the_own_role(api: ApiHarness) -> None:
    body = {"name": ADMIN, "domain": "default"}
    assert (await api.call("PUT", f"/users/{ADMIN}", json=body)).status_code == 409
    assert (await api.call("DELETE", f"/users/{ADMIN}")).status_code == 409
    assert (await api.get("/whoami")).json()["role"] == "admin"


async def test_a_new_role_counts_from_the_next_request_on(api: ApiHarness) -> None:
    await api.cluster.put(User("riser", "north"))
    await add_key(api, "riser")
    assert (await api.get("/metrics", user="riser")).status_code == 403
    assert await put_user(api, "riser", user=ADMIN, role="admin") == 200
    assert (await api.get("/metrics", user="riser")).status_code == 200


async def test_domains_and_policies_are_for_administrators(api: ApiHarness) -> None:
    for path in ("domains/north", "policies/any"):
        body = {"name": path.partition("/")[2]}
        assert (await api.call("PUT", f"/{path}", json=body, user=DOMAIN_ADMIN)).status_code == 403


@pytest.mark.slow
async def test_a_further_user_needs_agents_that_isolate_their_kernels_or_a_setting() -> None:
    for setting, status in ((False, 409), (True, 201)):
        async with api_harness(several_users_without_isolation=setting) as api:
            assert await put_user(api, "before", user=ADMIN) == 201
            await api.cluster.agent("bare", labels={"sokovan.isolation": "none"})
            assert await put_user(api, "after", user=ADMIN) == status
            assert await put_user(api, "before", user=ADMIN, groups=["north-group"]) == 200
