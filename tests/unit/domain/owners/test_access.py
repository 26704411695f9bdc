"""Access rules: a table by object kind, with exact comparison of owners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.owners.access import (
    RULES,
    UNOWNED,
    AccessDecision,
    AccessSubject,
    Action,
    ObjectKind,
    Ownership,
    access_decision,
    may,
    may_act_for,
    may_grant,
    role_may,
    session_scope,
)
from sokovan.domain.owners.tenancy import Role

ALICE = AccessSubject(user="alice", domain="north", role=Role.USER, groups=("lab",))
DOMAIN_ADMIN = AccessSubject(user="sam", domain="north", role=Role.DOMAIN_ADMIN)
ADMIN = AccessSubject(user="root", domain="default", role=Role.ADMIN)
SHARED = (
    ObjectKind.AGENT,
    ObjectKind.QUEUE,
    ObjectKind.SCALING_GROUP,
    ObjectKind.IMAGE,
    ObjectKind.TOPOLOGY,
    ObjectKind.BOOKING,
)

# Few names, of which some are the beginning of others: only equality may count.
NAMES = st.sampled_from(["", "a", "ab", "abc", "A"])
STANDINGS = st.builds(
    AccessSubject,
    user=NAMES.filter(bool),
    domain=NAMES.filter(bool),
    role=st.sampled_from(Role),
    groups=st.lists(NAMES.filter(bool), max_size=2).map(tuple),
)
BELONGINGS = st.builds(Ownership, domain=NAMES, user=NAMES, group=NAMES)


def test_every_kind_has_a_rule() -> None:
    assert set(RULES) == set(ObjectKind)


def test_a_user_has_access_to_own_sessions_only() -> None:
    assert may(ALICE, Action.CHANGE, ObjectKind.SESSION, Ownership(domain="north", user="alice"))
    assert not may(ALICE, Action.SEE, ObjectKind.SESSION, Ownership(domain="north", user="bob"))
    assert not may(ALICE, Action.SEE, ObjectKind.SESSION, Ownership(domain="north", user="alice2"))


def test_a_domain_admin_has_access_to_the_own_domain_only() -> None:
    for kind in (ObjectKind.SESSION, ObjectKind.KEY, ObjectKind.USER, ObjectKind.GROUP):
        assert may(DOMAIN_ADMIN, Action.CHANGE, kind, Ownership(domain="north", user="alice", group="lab"))
        assert not may(DOMAIN_ADMIN, Action.SEE, kind, Ownership(domain="south", user="sam", group="lab"))


@pytest.mark.parametrize("kind", SHARED)
def test_what_belongs_to_the_system_is_seen_by_all_and_changed_by_admins(kind: ObjectKind) -> None:
    assert all(may(one, Action.SEE, kind) for one in (ALICE, DOMAIN_ADMIN, ADMIN))
    assert [access_decision(one, Action.CHANGE, kind) for one in (ALICE, DOMAIN_ADMIN, ADMIN)] == [
        AccessDecision.FORBIDDEN,
        AccessDecision.FORBIDDEN,
        AccessDecision.ALLOWED,
    ]


def test_a_policy_is_seen_by_whom_it_limits_and_changed_by_admins() -> None:
    own, foreign = Ownership(domain="north", user="alice"), Ownership(domain="south", user="bob")
    assert [access_decision(one, Action.SEE, ObjectKind.POLICY, own) for one in (ALICE, DOMAIN_ADMIN, ADMIN)] == [
        AccessDecision.ALLOWED
    ] * 3
    assert [access_decision(one, Action.SEE, ObjectKind.POLICY, foreign) for one in (ALICE, DOMAIN_ADMIN, ADMIN)] == [
        AccessDecision.HIDDEN,
        AccessDecision.HIDDEN,
        AccessDecision.ALLOWED,
    ]
    assert [access_decision(one, Action.CHANGE, ObjectKind.POLICY, own) for one in (ALICE, DOMAIN_ADMIN, ADMIN)] == [
        AccessDecision.FORBIDDEN,
        AccessDecision.FORBIDDEN,
        AccessDecision.ALLOWED,
    ]


def test_the_figures_of_the_system_are_for_admins_and_no_secret_that_they_exist() -> None:
    assert access_decision(ALICE, Action.SEE, ObjectKind.SYSTEM) is AccessDecision.FORBIDDEN
    assert access_decision(ADMIN, Action.SEE, ObjectKind.SYSTEM) is AccessDecision.ALLOWED


def test_a_foreign_object_is_hidden_and_an_own_one_that_may_not_be_changed_is_forbidden() -> None:
    assert (
        access_decision(ALICE, Action.CHANGE, ObjectKind.SESSION, Ownership(domain="north", user="bob"))
        is AccessDecision.HIDDEN
    )
    assert (
        access_decision(ALICE, Action.CHANGE, ObjectKind.USER, Ownership(domain="north", user="alice"))
        is AccessDecision.FORBIDDEN
    )
    assert (
        access_decision(DOMAIN_ADMIN, Action.CHANGE, ObjectKind.USER, Ownership(domain="south", user="bob"))
        is AccessDecision.HIDDEN
    )
    assert (
        access_decision(DOMAIN_ADMIN, Action.CHANGE, ObjectKind.DOMAIN, Ownership(domain="north"))
        is AccessDecision.FORBIDDEN
    )


def test_members_see_their_groups_and_their_domain() -> None:
    assert may(ALICE, Action.SEE, ObjectKind.GROUP, Ownership(domain="north", group="lab"))
    assert not may(ALICE, Action.SEE, ObjectKind.GROUP, Ownership(domain="north", group="other"))
    assert may(ALICE, Action.SEE, ObjectKind.DOMAIN, Ownership(domain="north"))
    assert not may(ALICE, Action.SEE, ObjectKind.DOMAIN, Ownership(domain="south"))


def test_no_user_grants_a_role_above_the_own() -> None:
    assert may_grant(ADMIN, Role.ADMIN, "south")
    assert may_grant(DOMAIN_ADMIN, Role.DOMAIN_ADMIN, "north")
    assert not may_grant(DOMAIN_ADMIN, Role.ADMIN, "north")
    assert not may_grant(DOMAIN_ADMIN, Role.USER, "south")
    assert not may_grant(ALICE, Role.USER, "north")


def test_no_user_acts_for_a_higher_role() -> None:
    assert may_act_for(DOMAIN_ADMIN, "alice", Role.USER)
    assert not may_act_for(DOMAIN_ADMIN, "root", Role.ADMIN)
    assert may_act_for(ALICE, "alice", Role.USER)


def test_an_object_without_owner_does_not_belong_to_a_user_without_name() -> None:
    assert not may(AccessSubject(user="", domain="", role=Role.USER), Action.SEE, ObjectKind.SESSION, UNOWNED)
    assert not may(AccessSubject(user="", domain="", role=Role.DOMAIN_ADMIN), Action.SEE, ObjectKind.SESSION, UNOWNED)


def reference(subject: AccessSubject, act: Action, kind: ObjectKind, ownership: Ownership) -> bool:  # noqa: PLR0911  # a table of rules
    """The rules again, role by role and kind by kind, as a reviewer would say them."""
    if subject.role is Role.ADMIN:
        return True
    if kind in SHARED:
        return act is Action.SEE
    if kind is ObjectKind.SYSTEM:
        return False
    in_domain = bool(ownership.domain) and ownership.domain == subject.domain
    if kind is ObjectKind.POLICY and act is Action.CHANGE:
        return False
    if kind is ObjectKind.DOMAIN:
        return act is Action.SEE and in_domain
    if subject.role is Role.DOMAIN_ADMIN and in_domain:
        return True
    if kind is ObjectKind.GROUP:
        return act is Action.SEE and bool(ownership.group) and ownership.group in subject.groups
    if subject.role is Role.DOMAIN_ADMIN:
        return False
    own = bool(ownership.user) and ownership.user == subject.user
    return own and (kind in {ObjectKind.SESSION, ObjectKind.DEPLOYMENT, ObjectKind.KEY} or act is Action.SEE)


@given(STANDINGS, st.sampled_from(Action), st.sampled_from(ObjectKind), BELONGINGS)
def test_the_table_says_what_the_reference_says(
    subject: AccessSubject, act: Action, kind: ObjectKind, ownership: Ownership
) -> None:
    assert may(subject, act, kind, ownership) == reference(subject, act, kind, ownership)


@given(STANDINGS, st.sampled_from(Action), st.sampled_from(ObjectKind), BELONGINGS)
def test_an_answer_never_reveals_what_may_not_be_seen(
    subject: AccessSubject, act: Action, kind: ObjectKind, ownership: Ownership
) -> None:
    answer = access_decision(subject, act, kind, ownership)
    assert (answer is AccessDecision.ALLOWED) == may(subject, act, kind, ownership)
    if answer is AccessDecision.FORBIDDEN:
        assert may(subject, Action.SEE, kind, ownership) or not role_may(subject, act, kind)


@given(STANDINGS, BELONGINGS)
def test_the_filter_of_a_list_and_the_rule_for_one_session_agree(subject: AccessSubject, ownership: Ownership) -> None:
    scope = session_scope(subject)
    listed = scope.user in {"", ownership.user} and scope.domain in {"", ownership.domain}
    assert listed == may(subject, Action.SEE, ObjectKind.SESSION, ownership)


@given(STANDINGS, st.sampled_from(Action), st.sampled_from(ObjectKind), BELONGINGS)
def test_what_a_role_can_never_do_it_may_do_with_no_object(
    subject: AccessSubject, act: Action, kind: ObjectKind, ownership: Ownership
) -> None:
    if not role_may(subject, act, kind):
        assert not may(subject, act, kind, ownership)
