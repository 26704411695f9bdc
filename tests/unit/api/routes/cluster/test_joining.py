"""Join tokens and certificates over HTTP."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent_grant import AgentGrant
from tests.unit.api.api_harness import ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow
async def test_a_server_without_a_listener_creates_no_token(api: ApiHarness) -> None:
    answer = await api.call("POST", "/join-tokens", json={})
    assert (answer.status_code, "--listen" in answer.json()["hint"]) == (409, True)
    assert (await api.call("POST", "/join-tokens", json={"color": "red"})).status_code == 422
    assert (await api.call("POST", "/join-tokens", json={}, user=member("north"))).status_code == 403


@pytest.mark.slow
async def test_the_certificate_of_an_agent_that_has_joined_is_revoked_once(api: ApiHarness) -> None:
    await api.cluster.agent("joined", devices=False)
    assert (await api.call("DELETE", "/agents/joined/certificate")).status_code == 409
    await api.cluster.put(AgentGrant(name="joined", key="k"))
    assert (await api.call("DELETE", "/agents/joined/certificate", user=member("north"))).status_code == 403
    removed = await api.call("DELETE", "/agents/joined/certificate")
    assert (removed.status_code, removed.json()["status"]) == (200, "draining")
    assert (await api.call("DELETE", "/agents/joined/certificate")).status_code == 409
    assert (await api.call("DELETE", "/agents/nobody/certificate")).status_code == 404
