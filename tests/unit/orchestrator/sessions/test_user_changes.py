"""Who may change sessions, and what is recorded of it."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import AccessKey
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.tenancy import Owner, Role
from sokovan.domain.records import DETAIL_MAX
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.sessions.user_changes import change_by, may_change, termination

ADA = Owner(user="ada", group="nlp", domain="north", access_key=AccessKey("AKADA"))
BEN = Owner(user="ben", group="nlp", domain="north", access_key=AccessKey("AKBEN"))


@pytest.mark.parametrize(
    ("caller", "may"),
    [
        (Caller(ADA), True),
        (Caller(BEN), False),
        (Caller(BEN, Role.DOMAIN_ADMIN), True),
        (Caller(Owner(user="eve", domain="south"), Role.DOMAIN_ADMIN), False),
        (Caller(Owner(user="root", domain="south"), Role.ADMIN), True),
    ],
)
def test_owners_and_administrators_may_change_sessions(caller: Caller, *, may: bool) -> None:
    assert may_change(ADA, caller) is may


def test_a_change_names_its_author_and_a_bounded_reason() -> None:
    change = change_by(Caller(ADA), "released", "x" * (DETAIL_MAX + 1))
    assert (change.who, change.by, change.code, len(change.detail)) == ("ada", Cause.CONTROLLER, "released", DETAIL_MAX)


def test_a_forced_termination_has_a_goal_and_a_code_of_its_own() -> None:
    goal, change = termination(Caller(ADA), forced=False, reason="done")
    assert (goal, change.code, change.detail) == (Goal.STOP, "user-requested", "done")
    goal, change = termination(Caller(ADA), forced=True, reason="")
    assert (goal, change.code) == (Goal.FORCE, "forced-by-user")
