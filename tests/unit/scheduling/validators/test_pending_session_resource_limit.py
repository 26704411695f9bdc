"""The limit on the slots that an owner's waiting sessions request."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.little_cluster import (
    agent,
    decide,
    kernel,
    limits,
    session,
    slot_limits,
    snapshot,
    started,
    verdict_of,
)


def plan_for(
    *sessions: SessionWorkload, most: str = "cpu=4", elsewhere: tuple[SessionWorkload, ...] = ()
) -> SchedulingPlan:
    """The plan on eight cpus where alice's waiting sessions have this limit."""
    seen = snapshot(
        [agent("a", "cpu=8 mem=8Gi"), agent("full", "cpu=99 mem=99Gi", used="cpu=99 mem=99Gi")],
        sessions,
        limits=limits(Scope.KEYPAIR, "alice", pending_slots_max=slot_limits(most)),
        pending_elsewhere=elsewhere,
    )
    return decide(seen, validators=("pending-session-resource-limit",))


def test_a_session_is_considered_up_to_the_limit() -> None:
    assert started(plan_for(session("s", "cpu=4", user="alice"))) == ["s"]


def test_a_session_beyond_the_limit_gets_the_excess() -> None:
    plan = plan_for(session("s", "cpu=5.5", user="alice"))
    assert started(plan) == []
    assert verdict_of(plan, "s").code is Code.PENDING_LIMIT
    assert verdict_of(plan, "s").summary == "waiting sessions of keypair alice would exceed their limit by cpu=1.5"


def test_what_older_sessions_wait_for_counts_too() -> None:
    too_large = session("huge", "mem=99Gi cpu=3", user="alice")
    plan = plan_for(too_large, session("s", "cpu=2", user="alice"))
    assert started(plan) == []
    assert "by cpu=1" in verdict_of(plan, "s").summary


def test_what_starts_no_longer_counts() -> None:
    assert started(plan_for(session("s", "cpu=3", user="alice"), session("t", "cpu=3", user="alice"))) == ["s", "t"]


def test_what_waits_ahead_in_other_scaling_groups_counts() -> None:
    ahead = session("ahead", "cpu=3", user="alice", submitted=-1)
    behind = session("behind", "cpu=3", user="alice", submitted=99)
    plan = plan_for(session("s", "cpu=2", user="alice"), elsewhere=(ahead, behind))
    assert "by cpu=1" in verdict_of(plan, "s").summary


def test_the_session_that_comes_later_in_scheduling_order_is_refused() -> None:
    too_large = session("huge", "mem=99Gi cpu=3", user="alice")
    assert started(plan_for(too_large, session("urgent", "cpu=2", user="alice", priority=9))) == ["urgent"]


@pytest.mark.parametrize("scope", list(Scope))
def test_every_scope_has_its_limit_and_the_verdict_names_the_owner(scope: Scope) -> None:
    owner = Owner("alice", "lab", "faculty", AccessKey("key-1"))
    name = owner.name_in(scope)
    seen = snapshot(
        [agent("a", "cpu=8")],
        [session("s", "cpu=5", owner=owner), session("other", "cpu=5", user="bob")],
        limits=limits(scope, name, pending_slots_max=slot_limits("cpu=4")),
    )
    plan = decide(seen, validators=("pending-session-resource-limit",))
    assert started(plan) == ["other"]
    assert verdict_of(plan, "s").summary == f"waiting sessions of {scope} {name} would exceed their limit by cpu=1"


def test_a_session_that_grows_does_not_wait() -> None:
    grows = session("s", kernel("s.0", on="a"), kernel("s.1", "cpu=7"), user="alice", min_kernels=1)
    assert started(plan_for(grows)) == ["s"]


def test_a_slot_that_is_not_named_and_another_keypair_are_free() -> None:
    assert started(plan_for(session("s", "mem=8Gi", user="alice"), session("t", "cpu=8", user="bob"))) == ["s", "t"]
