"""Owners, their keys and their limits, from and to the wire."""

from __future__ import annotations

from sokovan.api.mapping.tenancy import (
    domain_of,
    domain_view,
    group_of,
    group_view,
    key_view,
    new_key_view,
    policy_of,
    policy_view,
    user_of,
    user_view,
    whoami_view,
)
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Role, User
from sokovan.domain.slots import SlotLimits
from sokovan.wire.api.tenancy import UserBody

POLICY = ResourcePolicy("small", SlotLimits({"cuda.device": 0}), 3, 4, SlotLimits({"cpu": 500}), 5, 6)
USER = User("alice", "north", ("lab",), "small", Role.DOMAIN_ADMIN)
KEY = Keypair(AccessKey("AK-1"), "alice", "small", active=False)


def test_what_was_got_can_be_put_back() -> None:
    domain, group = Domain("north", "small"), Group("lab", "north", "small")
    assert domain_of(domain_view(domain), None) == domain
    assert group_of(group_view(group), None) == group
    assert user_of(user_view(USER), None) == USER
    assert policy_of(policy_view(POLICY), None) == POLICY


def test_a_limit_of_nothing_is_a_limit() -> None:
    assert policy_view(POLICY).slots_max == {"cuda.device": "0"}


def test_a_group_that_is_named_twice_counts_once() -> None:
    assert user_of(UserBody(name="a", domain="d", groups=["x", "y", "x"]), None).groups == ("x", "y")


def test_a_key_is_shown_without_its_token_but_once() -> None:
    view = key_view(KEY)
    assert (view.access_key, view.user, view.policy, view.active) == ("AK-1", "alice", "small", False)
    assert not hasattr(view, "token")
    assert new_key_view(KEY, "sk-secret").token == "sk-secret"  # noqa: S105  # not a real one


def test_the_caller_is_shown() -> None:
    view = whoami_view(USER, KEY)
    assert (view.user, view.role, view.domain, view.groups, view.access_key) == (
        "alice",
        "domain-admin",
        "north",
        ["lab"],
        "AK-1",
    )
