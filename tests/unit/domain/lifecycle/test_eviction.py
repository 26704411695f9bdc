"""Receipts of evictions: the lost work, and how long the evicted wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.eviction import (
    Checkpoint,
    EvictionCost,
    EvictionReceipt,
    TakerState,
    choice_text,
    kernels_text,
    named_to,
    notice_ms,
    recent,
    room_back_ms,
    waits_until_ms,
)

DAY_MS = 24 * 3600 * 1000


def receipt(at_ms: int, number: int = 1) -> EvictionReceipt:
    """An eviction of two accelerators that began 100 s before."""
    return EvictionReceipt(
        number=number,
        attempt=number,
        at_ms=at_ms,
        for_session=SessionId("taker"),
        for_user="alice",
        action="preempt",
        kernels=2,
        whole=True,
        slots=2000,
        saved_ms=at_ms - 100_000,
        reported=False,
        evict_at_ms=at_ms + 10_000,
    )


def test_a_session_that_was_never_evicted_does_not_wait() -> None:
    assert waits_until_ms([]) == 0


@pytest.mark.parametrize(("times", "wait_s"), [(1, 30), (2, 60), (3, 120), (5, 480), (6, 600), (9, 600)])
def test_the_wait_doubles_with_each_eviction_up_to_ten_minutes(times: int, wait_s: int) -> None:
    evictions = [receipt(1_000_000 * number, number) for number in range(1, times + 1)]
    assert waits_until_ms(evictions) == evictions[-1].at_ms + wait_s * 1000


def test_a_choice_is_told_with_what_it_costs_and_the_next_best() -> None:
    cost = EvictionCost(
        only_loans=False, whole_gangs=1, queue_distance=2, queue_priority=3, priority=0, kernel_priority=4,
        lost_slot_minutes=1, kernels=2,
    )  # fmt: skip
    loans = replace(cost, only_loans=True, whole_gangs=0, queue_distance=0, kernel_priority=0, lost_slot_minutes=5)
    assert choice_text("share", cost, loans) == (
        "chosen (of a queue above its share) by cost: 1 whole gang, queue distance 2, queue priority 3, priority 0, "
        "kernel priority 4, 1 slot minute lost, 2 kernels; the next best: loans only, no whole gang, priority 0, "
        "5 slot minutes lost, 2 kernels"
    )
    assert choice_text("share", None, None) == ""


def test_a_kernel_ends_after_its_grace_period_or_when_its_lender_needs_it() -> None:
    assert [notice_ms(9000, one) for one in (None, 5, 20)] == [9000, 5000, 9000]


@pytest.mark.parametrize(
    ("taker", "back_ms"),
    [
        (None, None),
        (TakerState("pending", None, None), None),
        (TakerState("running", 2000, None), None),  # it has the room
        (TakerState("terminated", 2500, 9000), None),
        (TakerState("running", 1999, None), 2000),  # it was placed elsewhere
        (TakerState("cancelled", None, 1500), 2000),
        (TakerState("cancelled", None, 2500), 2500),
    ],
)
def test_the_room_returns_if_its_taker_was_withdrawn_or_placed_elsewhere(
    taker: TakerState | None, back_ms: int | None
) -> None:
    ended = receipt(1000).ended(2000, None)
    assert room_back_ms([ended], taker) == back_ms
    assert room_back_ms([receipt(1000)], TakerState("cancelled", None, 1500)) is None
    assert room_back_ms([], TakerState("cancelled", None, 1500)) is None


def test_evictions_of_an_earlier_day_do_not_make_the_wait_longer() -> None:
    assert waits_until_ms([receipt(0), receipt(DAY_MS, 2)]) == DAY_MS + 30_000


def test_the_lost_work_counts_until_the_end_from_the_last_checkpoint() -> None:
    notice = receipt(1_000_000)
    assert notice.lost_s == 200
    silent = notice.ended(1_005_000, None)
    assert (silent.lost_s, silent.reported, silent.ended_ms) == (210, False, 1_005_000)
    saved = notice.ended(1_005_000, Checkpoint(1_004_000, 7))
    assert (saved.lost_s, saved.reported, saved.step) == (2, True, 7)
    assert (silent.since(), saved.since()) == (
        "the start, as it reported no checkpoint,",
        "the checkpoint of step 7",
    )


def test_a_checkpoint_from_before_the_start_saves_nothing() -> None:
    assert receipt(1_000_000).ended(1_005_000, Checkpoint(10)).lost_s == 210


def test_a_notice_says_why_until_when_and_what_follows_but_not_for_which_other_user() -> None:
    notice = receipt(1_000_000).notice(user="alice", returns=True)
    assert notice == {
        "reason": "preempt", "evict_at": 1010.0, "for": "taker", "kernels": 2, "whole": True, "then": "requeue",
    }  # fmt: skip
    ends = receipt(1_000_000).notice(user="bob", returns=False)
    assert (ends["for"], ends["then"]) == ("a session of another user", "end")
    assert replace(receipt(1_000_000), whole=False).notice(user="bob", returns=False)["then"] == "shrink"


def test_a_session_that_had_ended_before_its_notice_lost_nothing() -> None:
    completed = replace(receipt(1_000_000), completed=True).ended(1_005_000, None)
    assert (completed.lost_s, completed.since()) == (0, "its own end, before the notice,")


def test_an_eviction_may_be_withdrawn_until_its_notice_or_its_end() -> None:
    chosen = replace(receipt(1_000_000), ran_since_ms=900_000)
    assert chosen.may_be_withdrawn
    assert not replace(chosen, noticed_ms=1_000_100).may_be_withdrawn
    assert not chosen.ended(1_005_000, None).may_be_withdrawn
    # Kernels that were starting cannot go on as if nothing had happened.
    assert not receipt(1_000_000).may_be_withdrawn


def test_a_move_delays_no_start_and_its_notice_says_that_it_starts_again() -> None:
    moved = replace(receipt(1_000_000), action="consolidate")
    assert (moved.is_move, waits_until_ms([moved]), recent([moved])) == (True, 0, [])
    assert waits_until_ms([receipt(500_000), moved]) == 530_000
    assert moved.notice(user="alice", returns=False)["then"] == "requeue"
    assert receipt(1_000_000).notice(user="alice", returns=False)["then"] == "end"


def test_a_session_that_states_how_often_it_saves_loses_no_more_than_that() -> None:
    stated = replace(receipt(1_000_000), saved_ms=990_000, saves_every_s=10)
    assert (stated.lost_s, stated.since()) == (20, "its last save, as it saves every 10s,")
    assert stated.ended(1_000_000, Checkpoint(995_000, 3)).since() == "the checkpoint of step 3"


def test_a_session_is_named_to_its_own_user_only() -> None:
    assert named_to("ana", user="ana", session_id="s-1", name="train") == "session train"
    assert named_to("ana", user="ana", session_id="s-1") == "session s-1"
    assert named_to("ana", user="ben", session_id="s-1", name="train") == "a session of another user"


def test_one_kernel_is_not_many() -> None:
    assert [kernels_text(count) for count in (1, 2)] == ["1 kernel", "2 kernels"]
