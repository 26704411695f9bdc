"""The limit of concurrent sessions of an owner."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import OwnerUsage, SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.little_cluster import agent, decide, kernel, limits, session, snapshot, started, verdict_of


def plan_for(*sessions: SessionWorkload, most: int | None, running: int = 0, **more: Any) -> SchedulingPlan:
    """The plan where alice's keypair may run so many sessions, and runs some already."""
    usage = {Scope.KEYPAIR: {"alice": OwnerUsage(sessions=running)}}
    bounds = limits(Scope.KEYPAIR, "alice", sessions_max=most)
    seen = snapshot([agent("a", "cpu=64", **more)], sessions, limits=bounds, usage=usage)
    return decide(seen, validators=("concurrency",))


def test_sessions_start_up_to_the_limit_and_the_next_gets_the_numbers() -> None:
    plan = plan_for(session("s", user="alice"), session("t", user="alice"), session("u", user="alice"), most=2)
    assert started(plan) == ["s", "t"]
    assert verdict_of(plan, "u").code is Code.CONCURRENCY_LIMIT
    assert verdict_of(plan, "u").summary == "keypair alice runs 2 of 2 sessions"


def test_sessions_that_run_already_count() -> None:
    plan = plan_for(session("s", user="alice"), session("t", user="alice"), most=3, running=2)
    assert started(plan) == ["s"]


def test_a_limit_of_zero_lets_nothing_start() -> None:
    assert started(plan_for(session("s", user="alice"), most=0)) == []


def test_a_session_that_grows_counts_already() -> None:
    grows = session("s", kernel("s.0", on="a"), kernel("s.1"), user="alice", min_kernels=1)
    assert started(plan_for(grows, most=1, running=1, used="cpu=1", kernel_count=1)) == ["s"]


def test_a_session_counts_once_however_many_kernels_it_grows_by() -> None:
    plan = plan_for(session("s", "cpu=1", "cpu=1", "cpu=1", user="alice", min_kernels=1), most=1)
    assert len(plan.placements) == 3


def test_another_keypair_is_not_concerned() -> None:
    assert started(plan_for(session("s", user="bob"), session("t", user="bob"), most=1)) == ["s", "t"]


def test_a_policy_without_a_number_of_sessions_sets_no_limit() -> None:
    assert started(plan_for(session("s", user="alice"), session("t", user="alice"), most=None)) == ["s", "t"]


@pytest.mark.parametrize("scope", list(Scope))
def test_every_scope_has_its_limit_and_the_verdict_names_the_owner(scope: Scope) -> None:
    owner = Owner("alice", "lab", "faculty", AccessKey("key-1"))
    name = owner.name_in(scope)
    seen = snapshot(
        [agent("a", "cpu=64")],
        [session("s", owner=owner), session("t", owner=owner), session("other", user="bob")],
        limits=limits(scope, name, sessions_max=2),
        usage={scope: {name: OwnerUsage(sessions=1)}},
    )
    plan = decide(seen, validators=("concurrency",))
    assert started(plan) == ["s", "other"]
    assert verdict_of(plan, "t").code is Code.CONCURRENCY_LIMIT
    assert verdict_of(plan, "t").summary == f"{scope} {name} runs 2 of 2 sessions"


def test_a_limit_of_a_group_counts_the_sessions_of_all_its_users() -> None:
    owners = [Owner(user, "lab", "faculty", AccessKey(user)) for user in ("alice", "bob")]
    seen = snapshot(
        [agent("a")],
        [session(owner.user, owner=owner) for owner in owners],
        limits=limits(Scope.GROUP, "lab", sessions_max=1),
    )
    assert started(decide(seen, validators=("concurrency",))) == ["alice"]
