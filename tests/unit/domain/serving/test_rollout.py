"""A rollout keeps enough replicas, and ends in one of two ways."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.serving.rollout import (
    RolloutAction,
    RolloutDecision,
    RolloutInput,
    RolloutPolicy,
    RolloutStrategy,
    SideCounts,
    SideTraffic,
    WhenFull,
    decide_rollout,
    worse,
)


def side(count: int, **options: Any) -> SideCounts:
    """So many replicas, all of them settled."""
    values: dict[str, Any] = {"counted": count, "active": count, "settled": count, "present": count}
    return SideCounts(**values | options)


def decided(old: SideCounts, new: SideCounts, **options: Any) -> RolloutDecision:
    policy = options.pop("policy", RolloutPolicy())
    values = {"desired": 2, "surge": policy.surge, "unavailable": policy.unavailable}
    return decide_rollout(RolloutInput(policy=policy, old=old, new=new, **{**values, **options}))


def test_a_rolling_update_starts_one_more_replica_before_one_leaves() -> None:
    first = decided(side(2), side(0))
    assert (first.old, first.new) == (2, 1)
    warming = decided(side(2), side(1, active=0, settled=0))
    assert (warming.old, warming.new) == (2, 1)
    settled = decided(side(2), side(1))
    assert (settled.old, settled.new) == (1, 1)
    draining = decided(side(1, present=2), side(1))
    assert (draining.old, draining.new) == (1, 1)
    second = decided(side(1), side(1))
    assert (second.old, second.new) == (1, 2)


def test_a_rolling_update_is_finished_when_all_new_replicas_have_settled() -> None:
    assert decided(side(0), side(2)).action is RolloutAction.FINISH
    assert decided(side(1), side(2)).action is RolloutAction.STAY


def test_replacing_takes_one_down_first() -> None:
    first = decided(side(2), side(0), surge=0, unavailable=1)
    assert (first.old, first.new) == (1, 0)
    second = decided(side(1), side(0), surge=0, unavailable=1)
    assert (second.old, second.new) == (1, 1)


@pytest.mark.parametrize("failures", [{"failed": 3}, {"failed": 1, "late": 1}])
def test_failures_of_new_replicas_end_the_rollout(failures: dict[str, int]) -> None:
    decision = decided(side(2), side(0, **failures))
    assert (decision.action, decision.old, decision.weight_new) == (RolloutAction.FAIL, 2, 0)
    assert decision.reason


def test_a_new_replica_that_answers_no_request_ends_the_rollout_with_its_reason() -> None:
    new = SideCounts(counted=0, failed=1, smoke="a request for one token got status 500")
    decision = decided(side(2), new)
    assert (decision.action, decision.weight_new) == (RolloutAction.FAIL, 0)
    assert decision.reason == "a new replica did not answer requests: a request for one token got status 500"


def test_two_failures_are_no_end() -> None:
    assert decided(side(2), side(1, failed=2)).action is RolloutAction.STAY


def test_rolling_back_removes_new_replicas_once_the_old_ones_suffice() -> None:
    assert decided(side(1), side(1), backward=True).new == 1
    back = decided(side(2), side(1), backward=True)
    assert (back.old, back.new, back.weight_new) == (2, 0, 0)
    assert decided(side(2), side(0), backward=True).action is RolloutAction.RESTORED


def test_blue_green_waits_with_the_whole_green_set_at_weight_zero() -> None:
    policy = RolloutPolicy(strategy=RolloutStrategy.BLUE_GREEN)
    assert decided(side(2), side(1), policy=policy) == RolloutDecision(2, 2, 0)
    ready = decided(side(2), side(2), policy=policy)
    assert (ready.action, ready.weight_new) == (RolloutAction.AWAIT, 0)
    flipped = decided(side(2), side(2), policy=policy, promoted=True)
    assert (flipped.old, flipped.new, flipped.weight_new) == (2, 2, 100)
    kept = decided(side(2), side(2), policy=policy, promoted=True, step_ms=600_000)
    assert (kept.old, kept.action) == (0, RolloutAction.FINISH)


def test_a_canary_holds_each_step() -> None:
    policy = RolloutPolicy(strategy=RolloutStrategy.CANARY, steps=(5, 50, 100), hold_s=60)
    first = decided(side(2), side(1), policy=policy)
    assert (first.old, first.new, first.weight_new, first.action) == (2, 1, 5, RolloutAction.STAY)
    assert decided(side(2), side(1), policy=policy, step_ms=60_000).action is RolloutAction.STEP
    last = decided(side(2), side(2), policy=policy, step=2)
    assert (last.old, last.weight_new) == (0, 100)
    assert decided(side(0), side(2), policy=policy, step=2).action is RolloutAction.FINISH


def test_a_share_by_hand_holds_a_canary_until_it_is_promoted() -> None:
    policy = RolloutPolicy(strategy=RolloutStrategy.CANARY, steps=(5, 50, 100), hold_s=60)
    held = decided(side(4), side(1), policy=policy, share=30, step_ms=600_000, desired=4)
    assert held == RolloutDecision(4, 2, 30)
    assert decided(side(4), side(1), policy=policy, share=0, desired=4) == RolloutDecision(4, 1, 0)
    assert decided(side(4), side(4), policy=policy, share=100, desired=4) == RolloutDecision(4, 4, 100)
    assert decided(side(4), side(0), policy=policy, share=30, desired=4).weight_new == 0
    assert decided(side(4), side(4), policy=policy, share=30, promoted=True, desired=4).old == 0


def test_the_share_of_a_policy_holds_a_canary_unless_another_is_set_by_hand() -> None:
    policy = RolloutPolicy(strategy=RolloutStrategy.CANARY, share=10)
    assert decided(side(4), side(1), policy=policy, step_ms=600_000, desired=4) == RolloutDecision(4, 1, 10)
    assert decided(side(4), side(1), policy=policy, share=30, desired=4) == RolloutDecision(4, 2, 30)
    assert decided(side(4), side(4), policy=policy, promoted=True, desired=4).old == 0


@pytest.mark.parametrize("fields", [{"share": 101}, {"share": -1}, {"strategy": RolloutStrategy.ROLLING, "share": 5}])
def test_a_share_is_a_percentage_of_a_canary(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match="share"):
        RolloutPolicy(**{"strategy": RolloutStrategy.CANARY, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"surge": 0, "unavailable": 0},
        {"surge": -1},
        {"steps": ()},
        {"steps": (50, 5, 100)},
        {"steps": (5, 50)},
        {"steps": (0, 100)},
        {"hold_s": -1},
        {"promote_after_s": -1},
        {"strategy": "yolo"},
        {"when_full": "now"},
    ],
)
def test_a_policy_is_checked(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        RolloutPolicy(**fields)


def test_full_clusters_replace_by_default() -> None:
    assert RolloutPolicy().when_full is WhenFull.REPLACE


@given(
    desired=st.integers(1, 8),
    surge=st.integers(1, 3),
    order=st.lists(st.booleans(), max_size=40),
)
def test_a_rolling_update_ends_and_always_serves(desired: int, surge: int, order: list[bool]) -> None:
    """New replicas settle, old ones leave, in any order of progress."""
    old, starting, settled = desired, 0, 0
    for settles in [*order, *[True] * 100]:
        new = side(settled + starting, active=settled, settled=settled)
        decision = decided(side(old), new, desired=desired, surge=surge)
        assert old + settled >= desired
        assert old + settled + starting <= desired + surge
        if decision.action is RolloutAction.FINISH:
            break
        old = min(old, decision.old)
        if decision.new > starting + settled:
            starting += 1
        elif settles and starting:
            starting, settled = starting - 1, settled + 1
    else:
        raise AssertionError("the update does not end")
    assert (old, settled) == (0, desired)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"served": 1000}, {"served": 48, "failed": 1}, ""),  # too few to tell
        ({"served": 1000}, {"served": 98, "failed": 2}, ""),  # two points are allowed
        ({"served": 1000}, {"served": 97, "failed": 3}, "more requests fail than before: 3 % and 0 %"),
        ({"served": 90, "failed": 10}, {"served": 89, "failed": 11}, ""),
        ({}, {"failed": 100}, ""),  # nothing to compare with
        ({"timed": 50, "first_byte_p95_ms": 100}, {"timed": 50, "first_byte_p95_ms": 150}, ""),
        ({"timed": 50, "first_byte_p95_ms": 200}, {"timed": 50, "first_byte_p95_ms": 301}, "301 ms and 200 ms"),
        ({"timed": 50, "first_byte_p95_ms": 10}, {"timed": 50, "first_byte_p95_ms": 100}, ""),  # nothing to notice
        ({"timed": 49, "first_byte_p95_ms": 100}, {"timed": 50, "first_byte_p95_ms": 900}, ""),
    ],
)
def test_a_revision_is_worse_by_failures_or_by_the_first_byte(
    old: dict[str, int], new: dict[str, int], said: str
) -> None:
    timed = {"served": 100} if "timed" in new else {}
    found = worse(SideTraffic(**{**timed, **old}), SideTraffic(**{**timed, **new}))
    assert said in found
    assert bool(said) == bool(found)


def test_a_revision_that_serves_worse_is_rolled_back() -> None:
    decision = decided(side(1), side(2), worse="more requests fail")
    assert (decision.action, decision.reason, decision.weight_new) == (RolloutAction.FAIL, "more requests fail", 0)
    assert decided(side(2), side(1), worse="more requests fail", backward=True).action is not RolloutAction.FAIL
