"""Resource limits of an owner: slots, sessions, kernels and priority."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.slots import NO_LIMITS, NO_SLOTS, ResourceSlot, SlotLimits


def test_a_policy_limits_nothing_that_it_does_not_name() -> None:
    policy = ResourcePolicy("default")
    assert (policy.slots_max, policy.pending_slots_max) == (NO_LIMITS, NO_LIMITS)
    assert (policy.sessions_max, policy.pending_sessions_max) == (None, None)
    assert (policy.kernels_per_session_max, policy.priority_max) == (None, None)


def test_an_owner_limited_in_devices_may_use_any_amount_of_memory() -> None:
    policy = ResourcePolicy("eight", slots_max=SlotLimits({"cuda.device": 8}))
    assert policy.slots_max.exceeded_by(ResourceSlot({"cuda.device": 8, "mem": 10**15})) == NO_SLOTS
    assert policy.slots_max.exceeded_by(ResourceSlot({"cuda.device": 9})) == ResourceSlot({"cuda.device": 1})


def test_a_limit_is_set_on_one_of_four_scopes() -> None:
    assert list(Scope) == ["keypair", "user", "group", "domain"]


@pytest.mark.parametrize("field", ["sessions_max", "pending_sessions_max", "kernels_per_session_max", "priority_max"])
def test_zero_is_a_limit_and_less_is_none(field: str) -> None:
    none: dict[str, Any] = {field: 0}
    less: dict[str, Any] = {field: -1}
    assert getattr(ResourcePolicy("none", **none), field) == 0
    with pytest.raises(InvalidSpec, match=f"quota none: {field} = -1"):
        ResourcePolicy("none", **less)
