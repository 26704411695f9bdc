"""Who may see and change what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.access import (
    NOBODYS,
    RULES,
    AccessDecision,
    Action,
    Belonging,
    ObjectKind,
    Standing,
    judged,
    may,
    may_act_for,
    may_at_all,
    may_grant,
    sessions_of,
)
from sokovan.domain.tenancy import Role

ALICE = Standing(user="alice", domain="north", role=Role.USER, groups=("lab",))
STEWARD = Standing(user="sam", domain="north", role=Role.DOMAIN_ADMIN)
ADMIN = Standing(user="root", domain="default", role=Role.ADMIN)
SHARED = (ObjectKind.AGENT, ObjectKind.QUEUE, ObjectKind.SCALING_GROUP, ObjectKind.IMAGE)

# Few names, of which some are the beginning of others: only equality may count.
NAMES = st.sampled_from(["", "a", "ab", "abc", "A"])
STANDINGS = st.builds(
    Standing,
    user=NAMES.filter(bool),
    domain=NAMES.filter(bool),
    role=st.sampled_from(Role),
    groups=st.lists(NAMES.filter(bool), max_size=2).map(tuple),
)
BELONGINGS = st.builds(Belonging, domain=NAMES, user=NAMES, group=NAMES)


def test_every_kind_has_a_rule() -> None:
    assert set(RULES) == set(ObjectKind)


def test_a_user_has_his_own_sessions_and_nobody_elses() -> None:
    assert may(ALICE, Action.CHANGE, ObjectKind.SESSION, Belonging(domain="north", user="alice"))
    assert not may(ALICE, Action.SEE, ObjectKind.SESSION, Belonging(domain="north", user="bob"))
    assert not may(ALICE, Action.SEE, ObjectKind.SESSION, Belonging(domain="north", user="alice2"))


def test_a_domain_admin_has_the_objects_of_his_domain_only() -> None:
    for kind in (ObjectKind.SESSION, ObjectKind.KEY, ObjectKind.USER, ObjectKind.GROUP):
        assert may(STEWARD, Action.CHANGE, kind, Belonging(domain="north", user="alice", group="lab"))
        assert not may(STEWARD, Action.SEE, kind, Belonging(domain="south", user="sam", group="lab"))


@pytest.mark.parametrize("kind", SHARED)
def test_what_belongs_to_the_system_is_seen_by_all_and_changed_by_admins(kind: ObjectKind) -> None:
    assert all(may(one, Action.SEE, kind) for one in (ALICE, STEWARD, ADMIN))
    assert [judged(one, Action.CHANGE, kind) for one in (ALICE, STEWARD, ADMIN)] == [
        AccessDecision.FORBIDDEN,
        AccessDecision.FORBIDDEN,
        AccessDecision.YES,
    ]


def test_a_policy_is_seen_by_whom_it_limits_and_changed_by_admins() -> None:
    own, foreign = Belonging(domain="north", user="alice"), Belonging(domain="south", user="bob")
    assert [judged(one, Action.SEE, ObjectKind.POLICY, own) for one in (ALICE, STEWARD, ADMIN)] == [
        AccessDecision.YES
    ] * 3
    assert [judged(one, Action.SEE, ObjectKind.POLICY, foreign) for one in (ALICE, STEWARD, ADMIN)] == [
        AccessDecision.HIDDEN,
        AccessDecision.HIDDEN,
        AccessDecision.YES,
    ]
    assert [judged(one, Action.CHANGE, ObjectKind.POLICY, own) for one in (ALICE, STEWARD, ADMIN)] == [
        AccessDecision.FORBIDDEN,
        AccessDecision.FORBIDDEN,
        AccessDecision.YES,
    ]


def test_the_figures_of_the_system_are_for_admins_and_no_secret_that_they_exist() -> None:
    assert judged(ALICE, Action.SEE, ObjectKind.SYSTEM) is AccessDecision.FORBIDDEN
    assert judged(ADMIN, Action.SEE, ObjectKind.SYSTEM) is AccessDecision.YES


def test_a_foreign_object_is_hidden_and_an_own_one_that_may_not_be_changed_is_forbidden() -> None:
    assert (
        judged(ALICE, Action.CHANGE, ObjectKind.SESSION, Belonging(domain="north", user="bob")) is AccessDecision.HIDDEN
    )
    assert (
        judged(ALICE, Action.CHANGE, ObjectKind.USER, Belonging(domain="north", user="alice"))
        is AccessDecision.FORBIDDEN
    )
    assert (
        judged(STEWARD, Action.CHANGE, ObjectKind.USER, Belonging(domain="south", user="bob")) is AccessDecision.HIDDEN
    )
    assert judged(STEWARD, Action.CHANGE, ObjectKind.DOMAIN, Belonging(domain="north")) is AccessDecision.FORBIDDEN


def test_members_see_their_groups_and_their_domain() -> None:
    assert may(ALICE, Action.SEE, ObjectKind.GROUP, Belonging(domain="north", group="lab"))
    assert not may(ALICE, Action.SEE, ObjectKind.GROUP, Belonging(domain="north", group="other"))
    assert may(ALICE, Action.SEE, ObjectKind.DOMAIN, Belonging(domain="north"))
    assert not may(ALICE, Action.SEE, ObjectKind.DOMAIN, Belonging(domain="south"))


def test_nobody_grants_more_than_he_holds() -> None:
    assert may_grant(ADMIN, Role.ADMIN, "south")
    assert may_grant(STEWARD, Role.DOMAIN_ADMIN, "north")
    assert not may_grant(STEWARD, Role.ADMIN, "north")
    assert not may_grant(STEWARD, Role.USER, "south")
    assert not may_grant(ALICE, Role.USER, "north")


def test_nobody_acts_for_who_is_above_him() -> None:
    assert may_act_for(STEWARD, "alice", Role.USER)
    assert not may_act_for(STEWARD, "root", Role.ADMIN)
    assert may_act_for(ALICE, "alice", Role.USER)


def test_an_object_that_is_nobodys_is_not_that_of_a_user_without_a_name() -> None:
    assert not may(Standing(user="", domain="", role=Role.USER), Action.SEE, ObjectKind.SESSION, NOBODYS)
    assert not may(Standing(user="", domain="", role=Role.DOMAIN_ADMIN), Action.SEE, ObjectKind.SESSION, NOBODYS)


def reference(standing: Standing, act: Action, kind: ObjectKind, belonging: Belonging) -> bool:  # noqa: PLR0911  # a table of rules
    """The rules again, role by role and kind by kind, as a reviewer would say them."""
    if standing.role is Role.ADMIN:
        return True
    if kind in SHARED:
        return act is Action.SEE
    if kind is ObjectKind.SYSTEM:
        return False
    in_domain = bool(belonging.domain) and belonging.domain == standing.domain
    if kind is ObjectKind.POLICY and act is Action.CHANGE:
        return False
    if kind is ObjectKind.DOMAIN:
        return act is Action.SEE and in_domain
    if standing.role is Role.DOMAIN_ADMIN and in_domain:
        return True
    if kind is ObjectKind.GROUP:
        return act is Action.SEE and bool(belonging.group) and belonging.group in standing.groups
    if standing.role is Role.DOMAIN_ADMIN:
        return False
    own = bool(belonging.user) and belonging.user == standing.user
    return own and (kind in {ObjectKind.SESSION, ObjectKind.KEY} or act is Action.SEE)


@given(STANDINGS, st.sampled_from(Action), st.sampled_from(ObjectKind), BELONGINGS)
def test_the_table_says_what_the_reference_says(
    standing: Standing, act: Action, kind: ObjectKind, belonging: Belonging
) -> None:
    assert may(standing, act, kind, belonging) == reference(standing, act, kind, belonging)


@given(STANDINGS, st.sampled_from(Action), st.sampled_from(ObjectKind), BELONGINGS)
def test_an_answer_never_reveals_what_may_not_be_seen(
    standing: Standing, act: Action, kind: ObjectKind, belonging: Belonging
) -> None:
    answer = judged(standing, act, kind, belonging)
    assert (answer is AccessDecision.YES) == may(standing, act, kind, belonging)
    if answer is AccessDecision.FORBIDDEN:
        assert may(standing, Action.SEE, kind, belonging) or not may_at_all(standing, act, kind)


@given(STANDINGS, BELONGINGS)
def test_the_filter_of_a_list_and_the_rule_for_one_session_agree(standing: Standing, belonging: Belonging) -> None:
    scope = sessions_of(standing)
    listed = scope.user in {"", belonging.user} and scope.domain in {"", belonging.domain}
    assert listed == may(standing, Action.SEE, ObjectKind.SESSION, belonging)


@given(STANDINGS, st.sampled_from(Action), st.sampled_from(ObjectKind), BELONGINGS)
def test_what_a_role_can_never_do_it_may_do_with_no_object(
    standing: Standing, act: Action, kind: ObjectKind, belonging: Belonging
) -> None:
    if not may_at_all(standing, act, kind):
        assert not may(standing, act, kind, belonging)
