"""Resource policies are seen by those whom they limit."""

from __future__ import annotations

import pytest

from sokovan.domain.policy import ResourcePolicy
from sokovan.domain.tenancy import Domain, Group, Keypair, Role, User
from tests.unit.api.little_api import ADMIN, LittleApi, member, steward

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
LIMITS = {
    "of-key": "a policy of the member's key",
    "of-user": "of the member",
    "of-group": "of a group of his",
    "of-other-group": "of a group of his domain that he is not in",
    "of-domain": "of his domain",
    "of-nobody": "set on nobody",
    "of-south": "of another domain",
}


async def seen(api: LittleApi, user: str) -> set[str]:
    """The policies that a list shows; each of them, and no other, can be shown alone."""
    items = (await api.get("/policies?limit=500", user=user)).json()["items"]
    listed = {item["name"] for item in items} & set(LIMITS)
    for name in LIMITS:
        assert (await api.get(f"/policies/{name}", user=user)).status_code == (200 if name in listed else 404)
    return listed


async def test_each_sees_the_policies_that_apply_to_him(api: LittleApi) -> None:
    await api.cluster.put(
        *(ResourcePolicy(name) for name in LIMITS),
        Domain("north", policy="of-domain"),
        Domain("south", policy="of-south"),
        Group("north-group", "north", policy="of-group"),
        Group("north-other", "north", policy="of-other-group"),
        User(NORTH, "north", groups=("north-group",), policy="of-user"),
        Keypair(api.keys[NORTH], NORTH, policy="of-key"),
    )

    mine = {"of-key", "of-user", "of-group", "of-domain"}
    assert await seen(api, NORTH) == mine
    assert await seen(api, SOUTH) == {"of-south"}
    assert await seen(api, steward("north")) == {*mine, "of-other-group"}
    assert await seen(api, ADMIN) == set(LIMITS)


async def test_a_domain_admin_sees_the_policy_of_a_user_of_his_domain_only(api: LittleApi) -> None:
    await api.cluster.put(
        ResourcePolicy("borrowed"), User("west-guest", "west", policy="borrowed", role=Role.DOMAIN_ADMIN)
    )
    assert (await api.get("/policies/borrowed", user=steward("west"))).status_code == 200
    assert (await api.get("/policies/borrowed", user=steward("south"))).status_code == 404
    assert (await api.get("/policies/borrowed", user=member("west"))).status_code == 404
