"""Who may change sessions, and what is recorded of it."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import AccessKey
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.tenancy import Owner, Role
from sokovan.domain.records import DETAIL_MAX, SessionRecord, SessionSummary
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.sessions import user_changes
from sokovan.orchestrator.sessions.user_changes import change_by, may_change, termination
from sokovan.ports.repositories.sessions import SessionFilter
from tests.unit.orchestrator.sessions.controller_harness import ALICE, BOB, ControllerHarness, controller_harness

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


async def stored(on: ControllerHarness, *sizes: int) -> list[SessionSummary]:
    """Sessions of Alice with so many kernels each, as a lookup finds them."""
    for size in sizes:
        await on.submit(size=size)
    return list(await on.store.read(lambda unit: unit.sessions.summaries(SessionFilter(), limit=100)))


async def test_many_sessions_end_in_bounded_transactions_and_the_second_time_changes_nothing() -> None:
    async with controller_harness() as on:
        sessions = await stored(on, 1, 1, 3, 1, 1)
        await on.hinted()
        with (
            patch.object(user_changes, "ENDED_TOGETHER", 2),
            patch.object(user_changes, "KERNELS_TOGETHER", 3),
            patch.object(on.store, "run", wraps=on.store.run) as runs,
        ):
            outcomes = await on.controller.terminations.request([*sessions, sessions[0]], ALICE, reason="enough")
        assert runs.call_count == 3, "two sessions, the one of three kernels, and two"
        assert [one.status for one in outcomes if isinstance(one, SessionRecord)] == [SessionStatus.CANCELLED] * 6
        assert await on.hinted()
        again = await on.controller.terminations.request(sessions, ALICE)
        assert [isinstance(one, SessionSummary) for one in again] == [True] * 5
        assert not await on.hinted()
        entries = await on.store.read(lambda unit: unit.audit.page(limit=99))
    ended = [entry for _, _, entry in entries if entry.action == "session.terminate"]
    assert [entry.detail["reason"] for entry in ended] == ["enough"] * 5


async def test_a_session_of_another_user_is_not_found_and_the_others_end() -> None:
    async with controller_harness() as on:
        [first] = await stored(on, 1)
        await on.submit(BOB)
        [first, other] = await on.store.read(lambda unit: unit.sessions.summaries(SessionFilter(), limit=100))
        hidden, ended = await on.controller.terminations.request([other, first], ALICE)
        assert isinstance(hidden, ObjectNotFound)
        assert not isinstance(ended, ObjectNotFound)
        assert ended.status is SessionStatus.CANCELLED
        assert (await on.store.read(lambda unit: unit.sessions.get(other.session_id))).status is SessionStatus.PENDING
