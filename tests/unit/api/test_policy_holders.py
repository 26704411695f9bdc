"""Resource policies are seen by those whom they limit."""

from __future__ import annotations

import pytest

from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Role, User
from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
LIMITS = {
    "of-key": "a policy of the member's key",
    "of-user": "of the member",
    "of-group": "of a group of the user",
    "of-other-group": "of another group of the domain",
    "of-domain": "of the domain",
    "of-none": "set on no owner",
    "of-south": "of another domain",
}


async def seen(api: ApiHarness, user: str) -> set[str]:
    """The policies that a list shows; each of them, and no other, can be shown alone."""
    items = (await api.get("/policies?limit=500", user=user)).json()["items"]
    listed = {item["name"] for item in items} & set(LIMITS)
    for name in LIMITS:
        assert (await api.get(f"/policies/{name}", user=user)).status_code == (200 if name in listed else 404)
    return listed


@pytest.mark.slow
async def test_each_user_sees_the_policies_that_apply_to_them(api: ApiHarness) -> None:
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
    assert await seen(api, domain_admin("north")) == {*mine, "of-other-group"}
    assert await seen(api, ADMIN) == set(LIMITS)


@pytest.mark.slow
async def test_a_domain_admin_sees_policies_of_users_of_the_own_domain_only(api: ApiHarness) -> None:
    await api.cluster.put(
        ResourcePolicy("borrowed"), User("west-guest", "west", policy="borrowed", role=Role.DOMAIN_ADMIN)
    )
    assert (await api.get("/policies/borrowed", user=domain_admin("west"))).status_code == 200
    assert (await api.get("/policies/borrowed", user=domain_admin("south"))).status_code == 404
    assert (await api.get("/policies/borrowed", user=member("west"))).status_code == 404
