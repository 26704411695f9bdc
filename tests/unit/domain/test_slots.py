"""Slots add up, never go below zero, and are equal exactly when they hold the same."""

from __future__ import annotations

import doctest

import pytest

from sokovan.domain import slots
from sokovan.domain.errors import InvalidSlots, SlotUnderflow
from sokovan.domain.slots import (
    NAME_MAX,
    NO_LIMITS,
    NO_SLOTS,
    UNLIMITED,
    ResourceSlot,
    SlotLimits,
    checked_slot_name,
    is_accelerator,
    total,
)

SMALL = ResourceSlot({"cpu": 1000, "mem": 4096})
LARGE = ResourceSlot({"cpu": 8000, "mem": 65536, "cuda.device": 8})


def test_the_examples_in_the_docstrings_hold() -> None:
    outcome = doctest.testmod(slots)
    assert (outcome.failed, outcome.attempted > 0) == (0, True)


def test_a_slot_that_is_not_there_is_zero() -> None:
    assert SMALL["cuda.device"] == 0
    assert "cuda.device" not in SMALL


def test_zero_is_the_same_as_not_there() -> None:
    assert ResourceSlot({"cpu": 1000, "mem": 4096, "cuda.device": 0}) == SMALL
    assert hash(ResourceSlot({"mem": 4096, "cpu": 1000})) == hash(SMALL)
    assert not ResourceSlot({"cpu": 0})


def test_slots_are_listed_by_name_whatever_the_order_they_came_in() -> None:
    assert list(ResourceSlot({"mem": 1, "cpu": 2})) == ["cpu", "mem"]
    assert repr(ResourceSlot({"mem": 1, "cpu": 2})) == "ResourceSlot(cpu=2, mem=1)"
    assert len(ResourceSlot({"mem": 1, "cpu": 2})) == 2


def test_slots_are_no_mere_mapping_and_equal_none() -> None:
    assert ResourceSlot({"cpu": 1}) != {"cpu": 1}
    assert ResourceSlot({"cpu": 1}) != SlotLimits({"cpu": 1})


def test_slots_do_not_change_with_the_mapping_they_were_made_from() -> None:
    amounts = {"cpu": 1}
    made = ResourceSlot(amounts)
    amounts["cpu"] = 2
    assert made["cpu"] == 1


def test_adding_and_taking_away_are_slot_by_slot() -> None:
    both, rest = SMALL + LARGE, LARGE - SMALL
    assert both == ResourceSlot({"cpu": 9000, "mem": 69632, "cuda.device": 8})
    assert rest == ResourceSlot({"cpu": 7000, "mem": 61440, "cuda.device": 8})
    assert not SMALL - SMALL


def test_taking_more_than_there_is_names_the_slot_and_both_amounts() -> None:
    with pytest.raises(SlotUnderflow, match=r"cannot take 8 cuda\.device from 0"):
        SMALL - ResourceSlot({"cuda.device": 8})


def test_slots_are_multiplied_by_whole_numbers_only() -> None:
    assert SMALL * 3 == SMALL + SMALL + SMALL
    assert SMALL * 0 == NO_SLOTS
    for times in (-1, 1.5):
        with pytest.raises(InvalidSlots):
            SMALL * times  # type: ignore[operator]  # a caller without a type checker


def test_slots_fit_if_every_slot_has_room() -> None:
    assert SMALL.fits(LARGE)
    assert SMALL.fits(SMALL)
    assert not LARGE.fits(SMALL)
    assert NO_SLOTS.fits(NO_SLOTS)


def test_a_shortfall_says_how_much_of_what_is_missing() -> None:
    assert LARGE.shortfall(SMALL) == ResourceSlot({"cpu": 7000, "mem": 61440, "cuda.device": 8})
    assert SMALL.shortfall(LARGE) == NO_SLOTS


def test_a_total_of_nothing_is_nothing() -> None:
    assert total([]) == NO_SLOTS
    assert total([SMALL, LARGE]) == SMALL + LARGE


def test_a_slot_without_a_limit_is_not_limited_and_zero_is_a_limit() -> None:
    limits = SlotLimits({"cpu": 4000, "cuda.device": 0})
    assert limits.exceeded_by(LARGE) == ResourceSlot({"cpu": 4000, "cuda.device": 8})
    assert limits["mem"] == UNLIMITED
    assert "cuda.device" in limits
    assert "mem" not in limits
    assert not NO_LIMITS.exceeded_by(LARGE)


def test_limits_are_equal_when_they_limit_the_same() -> None:
    assert SlotLimits({"mem": 1, "cpu": 0}) == SlotLimits({"cpu": 0, "mem": 1})
    assert hash(SlotLimits({"mem": 1, "cpu": 0})) == hash(SlotLimits({"cpu": 0, "mem": 1}))
    assert SlotLimits({"cpu": 0}) != NO_LIMITS
    assert repr(SlotLimits({"mem": 1, "cpu": 0})) == "SlotLimits(cpu=0, mem=1)"
    assert len(SlotLimits({"mem": 1, "cpu": 0})) == 2


@pytest.mark.parametrize("name", ["cpu", "cuda.device", "cuda.mem", "a-b_c.9", "x" * NAME_MAX])
def test_slot_names_are_lower_case_words_with_dots(name: str) -> None:
    assert checked_slot_name(name, given=name) == name


@pytest.mark.parametrize(
    "name", ["", "CPU", "9cpu", "cpu.", ".cpu", "a..b", "a b", "cpu\n", "x" * (NAME_MAX + 1), 7, None]
)
def test_what_is_no_slot_name_is_quoted_with_where_it_stood(name: object) -> None:
    with pytest.raises(InvalidSlots, match=r"cannot read slots 'line 3': .* is not a slot name"):
        checked_slot_name(name, given="line 3")


@pytest.mark.parametrize("amount", [-1, 1.0, "1", None, True])
def test_a_stored_amount_is_a_whole_number_from_zero_on(amount: int) -> None:
    for make in (ResourceSlot, SlotLimits):
        with pytest.raises(InvalidSlots, match="the amount of cpu is"):
            make({"cpu": amount})


@pytest.mark.parametrize(
    ("slot", "answer"),
    [("cuda.device", True), ("cuda.shares", True), ("cpu", False), ("mem", False), ("cuda.device.count", False)],
)
def test_devices_and_shares_of_devices_are_accelerators(slot: str, answer: bool) -> None:
    assert is_accelerator(slot) is answer
