"""The limit on an owner's waiting sessions: only the first in scheduling order are considered."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.ids import AccessKey, SessionId
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import SessionType
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.little_cluster import agent, decide, kernel, limits, session, snapshot, started, verdict_of

# "huge" waits for it; no other session finds room on it.
FULL = agent("full", "cpu=99", used="cpu=99")


def plan_for(
    *sessions: SessionWorkload,
    most: int | None,
    elsewhere: tuple[SessionWorkload, ...] = (),
    validators: tuple[str, ...] = ("pending-session-count-limit",),
) -> SchedulingPlan:
    """The plan on eight cpus and a full agent, where so many of alice's sessions may wait at a time."""
    seen = snapshot(
        [agent("a", "cpu=8"), FULL],
        sessions,
        limits=limits(Scope.KEYPAIR, "alice", pending_sessions_max=most),
        pending_elsewhere=elsewhere,
    )
    return decide(seen, validators=validators)


def test_a_session_behind_as_many_waiting_ones_as_may_wait_is_not_considered() -> None:
    huge = session("huge", "cpu=99", user="alice")
    plan = plan_for(huge, session("small", user="alice"), most=1)
    assert started(plan) == []
    assert verdict_of(plan, "small").code is Code.PENDING_LIMIT
    assert verdict_of(plan, "small").summary == "1 sessions of keypair alice wait ahead of it, 1 may wait at a time"


def test_with_room_in_the_backlog_a_small_session_passes_a_huge_one() -> None:
    assert started(plan_for(session("huge", "cpu=99", user="alice"), session("small", user="alice"), most=2)) == [
        "small"
    ]


def test_a_session_that_starts_leaves_the_backlog_at_once() -> None:
    plan = plan_for(session("s", user="alice"), session("t", user="alice"), session("u", user="alice"), most=1)
    assert started(plan) == ["s", "t", "u"]


def test_sessions_that_wait_ahead_in_other_scaling_groups_count() -> None:
    ahead = tuple(session(f"e{index}", user="alice", submitted=-index) for index in (1, 2))
    plan = plan_for(session("s", user="alice"), most=2, elsewhere=ahead)
    assert started(plan) == []
    assert verdict_of(plan, "s").summary == "2 sessions of keypair alice wait ahead of it, 2 may wait at a time"


def test_sessions_that_wait_behind_in_other_scaling_groups_do_not_block_those_ahead() -> None:
    behind = (session("late", user="alice", submitted=99), session("urgent", user="alice", priority=-1))
    assert started(plan_for(session("s", user="alice"), most=1, elsewhere=behind)) == ["s"]


def test_the_session_that_comes_later_in_scheduling_order_is_refused() -> None:
    old, urgent = session("old", "cpu=99", user="alice"), session("urgent", user="alice", priority=9)
    plan = plan_for(old, urgent, most=1)
    assert started(plan) == ["urgent"]
    waits = session("waits", "cpu=99", user="alice", priority=9)
    plan = plan_for(session("small", user="alice"), waits, most=1)
    assert started(plan) == []
    assert verdict_of(plan, "small").code is Code.PENDING_LIMIT


@pytest.mark.parametrize("scope", list(Scope))
def test_every_scope_has_its_limit_and_the_verdict_names_the_owner(scope: Scope) -> None:
    owner = Owner("alice", "lab", "faculty", AccessKey("key-1"))
    name = owner.name_in(scope)
    seen = snapshot(
        [agent("a"), FULL],
        [session("huge", "cpu=99", owner=owner), session("s", owner=owner), session("other", user="bob")],
        limits=limits(scope, name, pending_sessions_max=1),
    )
    plan = decide(seen, validators=("pending-session-count-limit",))
    assert started(plan) == ["other"]
    assert verdict_of(plan, "s").summary == f"1 sessions of {scope} {name} wait ahead of it, 1 may wait at a time"


def test_a_session_that_grows_is_not_in_the_backlog() -> None:
    huge = session("huge", "cpu=99", user="alice")
    grows = session("grows", kernel("grows.0", on="a"), kernel("grows.1"), user="alice", min_kernels=1)
    assert started(plan_for(huge, grows, most=1)) == ["grows"]


def test_another_keypair_has_a_backlog_of_its_own() -> None:
    huge = session("huge", "cpu=99", user="alice")
    assert started(plan_for(huge, session("s", user="bob"), session("t", user="bob"), most=1)) == ["s", "t"]


def test_a_policy_without_a_number_sets_no_limit() -> None:
    assert started(plan_for(session("huge", "cpu=99", user="alice"), session("s", user="alice"), most=None)) == ["s"]


@pytest.mark.parametrize(
    "held",
    [
        {"gates": ("user",)},
        {"session_type": SessionType.BATCH, "starts_at_ms": 1_000},
        {"dependencies": (SessionId("earlier"),)},
    ],
)
def test_a_session_that_is_held_does_not_count(held: dict[str, Any]) -> None:
    ahead = session("held", user="alice", **held)
    plan = plan_for(ahead, session("s", user="alice"), most=1, validators=SchedulingProfile().validators)
    assert started(plan) == ["s"]


def test_a_session_that_is_held_in_another_scaling_group_does_not_count() -> None:
    ahead = (session("held", user="alice", submitted=-1, gates=("user",)),)
    assert started(plan_for(session("s", user="alice"), most=1, elsewhere=ahead)) == ["s"]


def test_a_session_that_no_agent_could_ever_hold_does_not_count() -> None:
    never = session("never", "cpu=100", user="alice")
    plan = plan_for(never, session("s", user="alice"), session("t", "cpu=9", user="alice"), most=1)
    assert started(plan) == ["s"]
    assert verdict_of(plan, "never").code is Code.NEVER_FITS


def test_a_limit_of_none_says_that_no_session_is_considered() -> None:
    plan = plan_for(session("s", user="alice"), most=0)
    assert started(plan) == []
    assert verdict_of(plan, "s").summary == "keypair alice may have no waiting sessions, so none of its sessions starts"
