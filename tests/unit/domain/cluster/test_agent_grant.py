"""Join tokens and grants: what an agent that has joined may report."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent_grant import AgentGrant, ClaimRefused, JoinToken, join_digest
from sokovan.domain.errors import InvalidInput
from sokovan.domain.slots import ResourceSlot

GRANT = AgentGrant(name="a", key="k", scaling_group="gpus", slots=ResourceSlot({"cpu": 4000}))


def claim(grant: AgentGrant = GRANT, *, group: str = "gpus", cpu: int = 4000, label: str = "sokovan.isolation") -> None:
    grant.require_claim(scaling_group=group, slots=ResourceSlot({"cpu": cpu}), labels={label: "x"})


def test_an_agent_may_report_what_its_token_grants() -> None:
    claim()
    for label in ("nvidia.model", "nvidia.memory-bytes", "nvidia.driver"):
        claim(label=label)
    claim(AgentGrant(name="a", key="k", scaling_group="gpus"), cpu=10**9)


def test_another_scaling_group_more_slots_and_labels_are_refused() -> None:
    with pytest.raises(ClaimRefused, match="gpus, not default"):
        claim(group="default")
    with pytest.raises(ClaimRefused, match="cpu=4"):
        claim(cpu=4001)
    with pytest.raises(ClaimRefused, match="label rack"):
        claim(label="rack")
    with pytest.raises(ClaimRefused, match="mem"):
        GRANT.require_claim(scaling_group="gpus", slots=ResourceSlot({"mem": 1}), labels={})


def test_names_of_tokens_and_agents_are_checked() -> None:
    with pytest.raises(InvalidInput):
        JoinToken(name="", digest=join_digest("x"), expires_ms=1)
    with pytest.raises(InvalidInput):
        AgentGrant(name="a b", key="k")
