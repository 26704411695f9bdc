"""Claims and certificates of agents over HTTP."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent_claims import AgentClaims
from sokovan.domain.cluster.agent_grant import AgentGrant
from sokovan.domain.ids import AgentId
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.storage import UnitOfWork
from tests.unit.api.api_harness import ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")


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


@pytest.mark.slow
async def test_what_an_agent_claims_is_approved_as_it_was_shown(api: ApiHarness) -> None:
    await api.cluster.agent("claims", devices=False)
    path, shown = "/agents/claims/approval", ["slot cpu=9", "label rack=r9"]
    assert (await api.call("POST", path, json={"claims": []})).status_code == 409
    await mark(api, AgentClaims(ResourceSlot({"cpu": 9000}), {"rack": "r9"}))
    view = (await api.call("GET", "/agents/claims")).json()
    assert (view["unapproved"], view["operator_labels"]) == (shown, {})
    assert not [name for name in view["labels"] if name.startswith("sokovan.claim")]
    fleet = (await api.call("GET", "/fleet")).json()
    assert fleet["failing"]["claims"] == "not approved yet: slot cpu=9, label rack=r9"
    # Without a grant there is nothing to add to: its certificate was revoked.
    assert (await api.call("POST", path, json={"claims": shown})).status_code == 409
    await api.cluster.put(AgentGrant(name="claims", key="k", slots=ResourceSlot({"cpu": 1000})))
    assert (await api.call("POST", path, json={"claims": shown}, user=member("north"))).status_code == 403
    for wrong, status in (({"claims": shown[:1]}, 409), ({"claims": "all"}, 422), ({}, 422), ({"yes": True}, 422)):
        assert (await api.call("POST", path, json=wrong)).status_code == status
    approved = await api.call("POST", path, json={"claims": shown})
    assert (approved.status_code, approved.json()["unapproved"]) == (200, [])
    grant = await api.cluster.store.read(lambda unit: unit.catalog.get(AgentGrant, "claims"))
    assert (grant.slots["cpu"], grant.labels) == (9000, {"rack": "r9"})
    assert (await api.call("POST", path, json={"claims": shown})).status_code == 409
    assert (await api.call("POST", "/agents/nobody/approval", json={"claims": shown})).status_code == 404


async def mark(api: ApiHarness, claims: AgentClaims) -> None:
    """Mark the agent with claims, as an enrolment does."""

    async def work(unit: UnitOfWork) -> None:
        known = await unit.fleet.get(AgentId("claims"))
        await unit.catalog.set_labels("claims", claims.marks(), version=known.version)

    await api.cluster.store.run(work)
