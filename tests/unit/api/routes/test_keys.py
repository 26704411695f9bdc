"""Keys over HTTP."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa

from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Keypair, Role, User
from tests.unit.api.api_harness import ADMIN, ApiHarness, add_key, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH, DOMAIN_ADMIN = member("north"), member("south"), domain_admin("north")


async def make(api: ApiHarness, owner: str, user: str, **fields: Any) -> Any:
    return await api.call("POST", "/keys", json={"user": owner, **fields}, user=user)


@pytest.mark.slow
async def test_a_new_key_opens_at_once_and_its_token_is_shown_this_once(api: ApiHarness) -> None:
    answer = await make(api, NORTH, NORTH)
    key = answer.json()
    assert answer.status_code == 201
    assert re.fullmatch(r"sk-AK-[0-9A-Z]{26}\.[A-Za-z0-9_-]{43}", key["token"])
    api.tokens["new"] = key["token"]
    who = (await api.get("/whoami", user="new")).json()
    assert (who["user"], who["access_key"]) == (NORTH, key["access_key"])
    listed = (await api.get("/keys", user=NORTH)).json()["items"]
    assert key["access_key"] in [one["access_key"] for one in listed]
    assert all("token" not in one for one in listed)


@pytest.mark.slow
async def test_the_store_holds_nothing_that_opens(api: ApiHarness) -> None:
    token = (await make(api, NORTH, NORTH)).json()["token"]
    secret = token.rpartition(".")[2]

    async def dump(unit: Any) -> str:
        connection = unit.transaction.connection
        tables = (await connection.execute(sa.text("SELECT name FROM sqlite_master WHERE type = 'table'"))).scalars()
        rows = [(await connection.execute(sa.text(f'SELECT * FROM "{table}"'))).all() for table in tables]  # noqa: S608  # names from the database itself
        return str(rows)

    everything = await api.cluster.store.read(dump)
    assert NORTH in everything
    assert secret not in everything


async def test_each_user_sees_own_keys_or_administered_ones(api: ApiHarness) -> None:
    async def owners(user: str) -> set[str]:
        return {one["user"] for one in (await api.get("/keys?limit=500", user=user)).json()["items"]}

    assert await owners(NORTH) == {NORTH}
    assert await owners(DOMAIN_ADMIN) == {NORTH, DOMAIN_ADMIN}
    assert {ADMIN, NORTH, SOUTH} <= await owners(ADMIN)


async def test_a_key_is_made_for_oneself_or_for_whom_one_administers(api: ApiHarness) -> None:
    assert (await make(api, NORTH, DOMAIN_ADMIN)).status_code == 201
    assert (await make(api, SOUTH, ADMIN)).status_code == 201
    assert (await make(api, SOUTH, NORTH)).status_code == 404
    assert (await make(api, DOMAIN_ADMIN, NORTH)).status_code == 404
    assert (await make(api, SOUTH, DOMAIN_ADMIN)).status_code == 404
    assert (await make(api, "nobody", ADMIN)).status_code == 404
    assert (await make(api, "a\x00b", ADMIN)).status_code == 404


async def test_no_user_creates_a_key_for_a_higher_role(api: ApiHarness) -> None:
    await api.cluster.put(User("boss", "north", role=Role.ADMIN))
    await add_key(api, "boss")
    refused = await make(api, "boss", DOMAIN_ADMIN)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await api.call("DELETE", f"/keys/{api.keys['boss']}", user=DOMAIN_ADMIN)).status_code == 403
    assert (await api.get("/whoami", user="boss")).status_code == 200


async def test_a_user_cannot_escape_the_limits_of_the_own_key_nor_have_them_twice(api: ApiHarness) -> None:
    await api.cluster.put(ResourcePolicy("tight"), ResourcePolicy("loose"))
    await add_key(api, NORTH, named="tied")
    await api.cluster.put(Keypair(api.keys["tied"], NORTH, policy="tight"))
    for given in ({}, {"policy": "tight"}, {"policy": "loose"}):
        assert (await make(api, NORTH, "tied", **given)).status_code == 403


async def test_only_an_administrator_of_everything_chooses_the_limits_of_a_key(api: ApiHarness) -> None:
    await api.cluster.put(ResourcePolicy("snug"), ResourcePolicy("wide"))
    await add_key(api, DOMAIN_ADMIN, named="tied-domain_admin")
    await api.cluster.put(Keypair(api.keys["tied-domain_admin"], DOMAIN_ADMIN, policy="snug"))
    assert (await make(api, NORTH, "tied-domain_admin")).json()["policy"] == "snug"
    for owner in (DOMAIN_ADMIN, NORTH):
        assert (await make(api, owner, "tied-domain_admin", policy="wide")).status_code == 403
    assert (await make(api, DOMAIN_ADMIN, "tied-domain_admin")).status_code == 403
    assert (await make(api, NORTH, ADMIN, policy="wide")).json()["policy"] == "wide"
    assert (await make(api, NORTH, ADMIN)).json()["policy"] is None
    assert (await make(api, NORTH, ADMIN, policy="unknown")).status_code == 404


async def test_an_administrator_changes_the_limits_of_a_key(api: ApiHarness) -> None:
    await api.cluster.put(ResourcePolicy("changed"))
    key = await add_key(api, NORTH, named="changing")
    for body, policy in (({"policy": "changed"}, "changed"), ({}, None)):
        answer = await api.call("PUT", f"/keys/{key}", json=body, user=ADMIN)
        assert (answer.status_code, answer.json()["policy"]) == (200, policy)
    refused = [(await api.call("PUT", f"/keys/{key}", json={}, user=user)).status_code for user in (NORTH, SOUTH)]
    assert refused == [403, 404]
    assert (await api.call("PUT", f"/keys/{key}", json={"policy": "unknown"}, user=ADMIN)).status_code == 404
    assert (await api.call("PUT", "/keys/nothing", json={}, user=ADMIN)).status_code == 404
    assert (await api.get("/whoami", user="changing")).status_code == 200


async def test_a_user_has_a_bounded_number_of_keys(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokovan.api.routes.keys.KEYS_MAX", 1)
    refused = await make(api, SOUTH, SOUTH)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


async def test_a_revoked_key_is_refused_and_forgotten(api: ApiHarness) -> None:
    key = await add_key(api, NORTH, named="doomed")
    assert (await api.get("/whoami", user="doomed")).status_code == 200
    assert (await api.call("DELETE", f"/keys/{key}", user="doomed")).status_code == 204
    assert (await api.get("/whoami", user="doomed")).status_code == 401
    assert (await api.call("DELETE", f"/keys/{key}", user=NORTH)).status_code == 404


async def test_no_user_revokes_keys_of_others(api: ApiHarness) -> None:
    for user in (NORTH, DOMAIN_ADMIN):
        assert (await api.call("DELETE", f"/keys/{api.keys[SOUTH]}", user=user)).status_code == 404
    assert (await api.get("/whoami", user=SOUTH)).status_code == 200
    assert (await api.call("DELETE", "/keys/a%00b", user=NORTH)).status_code == 404


async def test_making_and_revoking_is_written_down_without_the_secret(api: ApiHarness) -> None:
    key = (await make(api, NORTH, NORTH)).json()
    await api.call("DELETE", f"/keys/{key['access_key']}", user=NORTH)
    trail = await api.audited()
    for action in ("key.create", "key.remove"):
        assert (NORTH, action, AccessKey(key["access_key"]), "done") in trail
    assert key["token"].rpartition(".")[2] not in str(trail)
