"""Quotas of a single owner."""

from __future__ import annotations

import pytest

from sokovan.cli.commands.catalog.quota_owners import policy_of
from sokovan.sdk.errors import InvalidSetting
from tests.unit.cli.canned_server import CannedServer, Sokovan


@pytest.mark.parametrize(("kind", "path"), [("user", "users"), ("group", "groups"), ("domain", "domains")])
def test_an_owner_gets_a_quota_of_its_own(server: CannedServer, sokovan: Sokovan, kind: str, path: str) -> None:
    server.says(f"PUT policies/{kind}.nlp", {"name": f"{kind}.nlp"})
    server.says(f"GET {path}/nlp", {"name": "nlp", "domain": "d"})
    server.says(f"PUT {path}/nlp", {"name": "nlp", "domain": "d"})
    status, _, err = sokovan("quota", "set", f"{kind}:nlp", "gpu=64")
    assert status == 0
    assert err.splitlines()[0] == f"quota {kind}.nlp assigned to {kind} nlp"
    assert server.body(f"PUT {path}/nlp")["policy"] == f"{kind}.nlp"


@pytest.mark.slow
def test_the_owners_of_a_quota_are_shown(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET policies/big", {"name": "big"})
    server.says("GET domains", {"items": [{"name": "physics", "policy": "small"}]})
    server.says("GET groups", {"items": [{"name": "nlp", "domain": "d", "policy": "big"}]})
    server.says(
        "GET users", {"items": [{"name": "ada", "domain": "d", "policy": "big"}, {"name": "al", "domain": "d"}]}
    )
    server.says("GET keys", {"items": [{"access_key": "AK-1", "user": "al", "policy": "big", "active": True}]})
    status, out, _ = sokovan("quota", "show", "big")
    assert (status, out.splitlines()[-1].split(maxsplit=1)) == (0, ["assigned_to", "group:nlp, user:ada, key:AK-1"])


def test_an_unknown_kind_of_owner_is_refused() -> None:
    assert policy_of("students") == "students"
    for name in ("team:nlp", "group:"):
        with pytest.raises(InvalidSetting, match="is not an owner"):
            policy_of(name)


@pytest.mark.parametrize("owner", ["user:nope", "group:nope", "domain:nope"])
def test_a_quota_of_an_owner_that_does_not_exist_is_not_stored(
    server: CannedServer, sokovan: Sokovan, owner: str
) -> None:
    status, _, err = sokovan("quota", "set", owner, "gpu=64")
    assert status == 3
    assert "[not-found]" in err
    assert len(server.asked) == 1
