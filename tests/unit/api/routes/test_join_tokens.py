"""Join tokens over HTTP."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent_grant import JoinToken, join_digest
from tests.unit.api.api_harness import ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow
async def test_a_server_without_a_listener_creates_no_token(api: ApiHarness) -> None:
    answer = await api.call("POST", "/join-tokens", json={})
    assert (answer.status_code, "--listen" in answer.json()["hint"]) == (409, True)
    assert (await api.call("POST", "/join-tokens", json={"color": "red"})).status_code == 422
    assert (await api.call("POST", "/join-tokens", json={}, user=member("north"))).status_code == 403


@pytest.mark.slow
async def test_join_tokens_are_listed_and_revoked_by_administrators(api: ApiHarness) -> None:
    digest, later_ms = join_digest("s"), 1 << 42
    labelled = JoinToken(name="open", digest=digest, labels={"rack": "r1"}, created_by="root", expires_ms=later_ms)
    used = JoinToken(name="used", digest=digest, used_by="gpu2", expires_ms=later_ms)
    await api.cluster.put(labelled, used, JoinToken(name="old", digest=digest, expires_ms=1))
    for method, path in (("GET", "/join-tokens"), ("DELETE", "/join-tokens/open")):
        assert (await api.call(method, path, user=member("north"))).status_code == 403
    listed = (await api.call("GET", "/join-tokens")).json()["items"]
    assert [(one["name"], one["used_by"], one["labels"]) for one in listed] == [
        ("open", "", {"rack": "r1"}),
        ("used", "gpu2", {}),
    ]
    assert "digest" not in listed[0]
    assert (await api.call("DELETE", "/join-tokens/open")).status_code == 204
    for name, status in (("open", 404), ("old", 404), ("nobody", 404), ("used", 409)):
        assert (await api.call("DELETE", f"/join-tokens/{name}")).status_code == status
    assert [one["name"] for one in (await api.call("GET", "/join-tokens")).json()["items"]] == ["used"]
