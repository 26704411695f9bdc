"""The catalog over HTTP: what holds for every kind of item."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")
# A path, a body, and something that may be changed about it.
ITEMS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("scaling-groups/gpu", {"name": "gpu"}, {"pending_timeout_s": 60}),
    ("queues/fast", {"name": "fast"}, {"weight": 7, "capability": {"cpu": "8"}}),
    ("images/repo/x:1", {"name": "repo/x:1"}, {"slots_min": {"mem": "1Gi"}}),
    ("domains/east", {"name": "east"}, {"policy": "small"}),
    ("groups/lab", {"name": "lab", "domain": "north"}, {"policy": "small"}),
    ("users/zoe", {"name": "zoe", "domain": "north"}, {"role": "domain-admin", "groups": ["north-group"]}),
    ("policies/p1", {"name": "p1"}, {"sessions_max": 3, "slots_max": {"cuda.device": "0"}}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "body", "change"), ITEMS)
async def test_an_item_is_made_shown_listed_changed_and_removed(
    api: ApiHarness, path: str, body: dict[str, Any], change: dict[str, Any]
) -> None:
    await api.call("PUT", "/policies/small", json={"name": "small"})
    made = await api.call("PUT", f"/{path}", json=body)
    assert made.status_code == 201
    assert (await api.get(f"/{path}")).json() == made.json()
    changed = await api.call("PUT", f"/{path}", json={**body, **change})
    assert changed.status_code == 200
    assert change.items() <= changed.json().items()
    kind = path.partition("/")[0]
    assert changed.json() in (await api.get(f"/{kind}?limit=500")).json()["items"]
    # What was got can be put back, and is the same.
    assert (await api.call("PUT", f"/{path}", json=changed.json())).json() == changed.json()
    assert (await api.call("DELETE", f"/{path}")).status_code == 204
    assert (await api.get(f"/{path}")).status_code == 404
    assert (await api.call("DELETE", f"/{path}")).status_code == 404


@pytest.mark.parametrize(("path", "body", "change"), ITEMS)
async def test_users_change_nothing_of_it(
    api: ApiHarness, path: str, body: dict[str, Any], change: dict[str, Any]
) -> None:
    assert change
    for method, options in (("PUT", {"json": body}), ("DELETE", {})):
        answer = await api.call(method, f"/{path}", user=NORTH, **options)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert (await api.get(f"/{path}")).status_code == 404


@pytest.mark.parametrize("kind", sorted({path.partition("/")[0] for path, _, _ in ITEMS}))
async def test_a_name_that_is_none_names_nothing(api: ApiHarness, kind: str) -> None:
    for name in ("a%00b", "%20", "a%20b%20c", "-x", "x" * 150):
        assert (await api.get(f"/{kind}/{name}")).status_code == 404
    assert (await api.get(f"/{kind}/{'x' * 201}")).status_code == 422


async def test_a_list_is_given_in_pages_by_name(api: ApiHarness) -> None:
    for number in range(5):
        await api.call("PUT", f"/policies/page-{number}", json={"name": f"page-{number}"})
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await api.get(f"/policies?limit=2{cursor}")).json()
        seen += [item["name"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert [name for name in seen if name.startswith("page-")] == [f"page-{number}" for number in range(5)]
    assert len(seen) == len(set(seen))


async def test_the_name_in_the_body_is_the_name_in_the_path(api: ApiHarness) -> None:
    answer = await api.call("PUT", "/queues/one", json={"name": "two"})
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["where"] == "name"


async def test_what_others_refer_to_stays(api: ApiHarness) -> None:
    await api.call("PUT", "/policies/used", json={"name": "used"})
    await api.call("PUT", "/domains/user-of-it", json={"name": "user-of-it", "policy": "used"})
    refused = await api.call("DELETE", "/policies/used")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


async def test_what_refers_to_nothing_is_refused(api: ApiHarness) -> None:
    answer = await api.call("PUT", "/domains/lonely", json={"name": "lonely", "policy": "unknown"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_each_user_sees_the_own_owners(api: ApiHarness) -> None:
    async def names(kind: str, user: str) -> set[str]:
        return {item["name"] for item in (await api.get(f"/{kind}?limit=500", user=user)).json()["items"]}

    assert await names("users", NORTH) == {NORTH}
    assert await names("users", domain_admin("north")) == {NORTH, domain_admin("north")}
    assert await names("groups", NORTH) == {"north-group"}
    assert await names("domains", NORTH) == {"north"}
    assert await names("domains", domain_admin("south")) == {"south"}
    assert {"north", "south", "west", "default"} <= await names("domains", "root")
    for kind, name in (("users", member("south")), ("groups", "south-group"), ("domains", "south")):
        assert (await api.get(f"/{kind}/{name}", user=NORTH)).status_code == 404
        assert (await api.get(f"/{kind}/{name}", user=domain_admin("north"))).status_code == 404


@pytest.mark.parametrize(
    ("kind", "body"),
    [("queues", {}), ("scaling-groups", {}), ("domains", {}), ("groups", {"domain": "default"})],
)
async def test_what_everything_counts_on_stays(api: ApiHarness, kind: str, body: dict[str, Any]) -> None:
    assert (await api.call("PUT", f"/{kind}/default", json={"name": "default", **body})).status_code in {200, 201}
    refused = await api.call("DELETE", f"/{kind}/default")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "cannot be removed" in refused.json()["detail"]
    assert refused.json()["hint"]
    assert (await api.get(f"/{kind}/default")).status_code == 200
