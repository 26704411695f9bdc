"""Join tokens and grants: what an agent that has joined may report."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.agent_claims import CLAIMED_NAME_MAX, CLAIMS_MAX, NO_CLAIMS, AgentClaims
from sokovan.domain.cluster.agent_grant import AgentGrant, ClaimRefused, JoinToken, join_digest
from sokovan.domain.errors import InvalidInput
from sokovan.domain.ids import AgentId
from sokovan.domain.slots import ResourceSlot

GRANT = AgentGrant(name="a", key="k", scaling_group="gpus", slots=ResourceSlot({"cpu": 4000}), labels={"rack": "r1"})


def claims(
    grant: AgentGrant = GRANT, *, group: str = "gpus", cpu: int = 4000, labels: Mapping[str, str] | None = None
) -> AgentClaims:
    return grant.beyond(scaling_group=group, slots=ResourceSlot({"cpu": cpu}), labels=labels or {})


def test_an_agent_may_report_what_its_token_grants() -> None:
    assert claims(labels={"rack": "r1"}) == NO_CLAIMS
    for label in ("sokovan.isolation", "nvidia.model", "nvidia.memory-bytes", "nvidia.driver"):
        assert claims(labels={label: "x"}) == NO_CLAIMS
    assert claims(AgentGrant(name="a", key="k", scaling_group="gpus"), cpu=10**9) == NO_CLAIMS


def test_more_and_other_slots_and_labels_are_claims() -> None:
    assert claims(cpu=4001).texts() == ["slot cpu=4.001"]
    assert claims(labels={"rack": "r2", "zone": "z"}).texts() == ["label rack=r2", "label zone=z"]
    other = GRANT.beyond(scaling_group="gpus", slots=ResourceSlot({"mem": 1 << 30}), labels={})
    assert other.texts() == ["slot mem=1Gi"]


def test_an_approved_claim_is_granted_from_then_on() -> None:
    after = GRANT.with_claims(claims(cpu=8000, labels={"rack": "r2"}))
    assert (after.slots["cpu"], after.labels) == (8000, {"rack": "r2"})
    assert claims(after, cpu=8000, labels={"rack": "r2"}) == NO_CLAIMS
    assert claims(after, cpu=8001, labels={"rack": "r1"}).texts() == ["slot cpu=8.001", "label rack=r1"]
    # A grant without slots has all of them, and stays so.
    free = AgentGrant(name="a", key="k", scaling_group="gpus").with_claims(AgentClaims(labels={"zone": "z"}))
    assert claims(free, cpu=10**9, labels={"zone": "z"}) == NO_CLAIMS


def test_another_scaling_group_and_too_many_claims_are_refused() -> None:
    with pytest.raises(ClaimRefused, match="gpus, not default"):
        claims(group="default")
    longest = "n" * CLAIMED_NAME_MAX
    AgentInfo(AgentId("a"), ResourceSlot(), labels=claims(labels={longest: "x"}).marks())
    with pytest.raises(ClaimRefused, match="whose name has more than"):
        claims(labels={f"{longest}n": "x"})
    with pytest.raises(ClaimRefused, match=str(CLAIMS_MAX)):
        claims(labels={f"l{number}": "x" for number in range(CLAIMS_MAX + 1)})


def test_names_of_tokens_and_agents_are_checked() -> None:
    with pytest.raises(InvalidInput):
        JoinToken(name="", digest=join_digest("x"), expires_ms=1)
    with pytest.raises(InvalidInput):
        JoinToken(name="t", digest=join_digest("x"), expires_ms=1, labels={"a\n": "b"})
    with pytest.raises(InvalidInput):
        AgentGrant(name="a b", key="k")


def test_a_token_can_be_used_once_and_before_it_expires() -> None:
    token = JoinToken(name="t", digest=join_digest("x"), expires_ms=10)
    assert (token.is_usable(9), token.is_usable(10)) == (True, False)
    assert not JoinToken(name="t", digest=join_digest("x"), expires_ms=10, used_by="a").is_usable(9)
