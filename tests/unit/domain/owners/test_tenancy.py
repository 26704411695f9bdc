"""Owners: domains contain groups (projects) and users, users have keypairs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sokovan.domain.errors import InvalidName, InvalidSpec
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, Role, User


def test_a_user_is_in_one_domain_and_in_several_groups_of_it() -> None:
    alice = User("alice", domain="research", groups=("nlp", "vision"), policy="large")
    assert (alice.domain, alice.groups, alice.policy) == ("research", ("nlp", "vision"), "large")


def test_a_user_is_a_plain_one_unless_a_role_is_given() -> None:
    assert User("alice", "research").role is Role.USER
    assert User("root", "research", role=Role.ADMIN).role == "admin"
    assert [role.value for role in Role] == ["admin", "domain-admin", "user"]
    # A string is not accepted as a role.
    with pytest.raises(InvalidSpec, match="user alice: role = 'admin': must be one of admin, domain-admin, user"):
        User("alice", "research", role="admin")  # type: ignore[arg-type]  # a caller without a type checker


def test_a_keypair_is_active_until_it_is_revoked_and_holds_no_secret() -> None:
    key = Keypair(AccessKey("AK1"), user="alice")
    assert key.active
    assert not hasattr(key, "secret_key")


def test_the_default_owner_is_default_in_all_four_scopes() -> None:
    owner = Owner()
    assert {owner.user, owner.group, owner.domain, owner.access_key} == {"default"}


def test_two_owners_are_the_same_when_all_four_scopes_are() -> None:
    assert Owner(user="alice") == Owner(user="alice")
    assert len({Owner(user="alice"), Owner(user="alice", group="nlp"), Owner(user="bob")}) == 3


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: Domain(""), "domain"),
        (lambda: Group("", "research"), "group"),
        (lambda: Group("nlp", ""), "domain"),
        (lambda: User("", "research"), "user"),
        (lambda: User("alice", ""), "domain"),
        (lambda: User("alice", "research", groups=("nlp", "")), "group"),
        (lambda: Keypair(AccessKey(""), "alice"), "access key"),
        (lambda: Keypair(AccessKey("AK1"), ""), "user"),
        (lambda: Domain("research", policy=""), "quota"),
        (lambda: Group("nlp", "research", policy=""), "quota"),
        (lambda: Keypair(AccessKey("AK1"), "alice", policy=""), "quota"),
        (lambda: Owner(user=""), "user"),
        (lambda: Owner(group=""), "group"),
        (lambda: Owner(domain=""), "domain"),
        (lambda: Owner(access_key=AccessKey("")), "access key"),
    ],
)
def test_every_tenant_has_a_name(make: Callable[[], object], kind: str) -> None:
    with pytest.raises(InvalidName) as refusal:
        make()
    assert refusal.value.what == kind
