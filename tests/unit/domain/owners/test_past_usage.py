"""Past usage: the decay, the value of a row over time, units and weights."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.owners.past_usage import (
    HALF_LIFE_DEFAULT_S,
    ONE,
    USAGE_MAX,
    PastUsage,
    UsageChange,
    UsageKey,
    UsageScope,
    changed_amount,
    decay,
    rounded,
    slot_weight,
    unit_of,
    value_after,
)
from sokovan.scheduling.snapshot import UsageRecord
from tests.reference.usage import decayed

HOUR = 3600
SLOTS = st.sampled_from(["cpu", "mem", "cuda.device"])


@pytest.mark.parametrize("halvings", range(97))
def test_a_whole_half_life_halves_exactly(halvings: int) -> None:
    assert decay(halvings * HOUR, HOUR) == ONE >> halvings


def test_after_very_many_half_lives_nothing_is_left() -> None:
    assert decay(97 * HOUR, HOUR) == 0


def test_half_of_a_half_life_is_the_square_root_of_a_half() -> None:
    assert abs(decay(HOUR // 2, HOUR) ** 2 - (ONE * ONE >> 1)) < ONE << 8


@pytest.mark.slow
def test_decay_never_grows_over_the_seconds_of_a_few_half_lives() -> None:
    faded = [decay(age, 997) for age in range(3 * 997)]
    assert all(later <= earlier for earlier, later in pairwise(faded))


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 10**8))
def test_usage_never_counts_more_as_it_grows_older(age: int, later: int, half_life: int) -> None:
    assert 0 <= decay(age + later, half_life) <= decay(age, half_life) <= ONE


def test_a_millisecond_of_the_default_half_life_already_decays() -> None:
    half_life_ms = HALF_LIFE_DEFAULT_S * 1000
    lost = ONE - decay(1, half_life_ms)
    assert lost * half_life_ms == pytest.approx(0.6931472 * ONE, rel=1e-6)


@pytest.mark.slow
@given(
    st.builds(UsageRecord, st.just("u"), st.just(0), st.integers(0, 10**9), slot=SLOTS, held=st.integers(0, 10**6)),
    st.integers(0, 10**9),
    st.integers(1, 10**9),
)  # fmt: skip
def test_the_value_of_a_row_is_that_of_the_formula(record: UsageRecord, age: int, half_life: int) -> None:
    found = value_after(record.amount, record.held, record.slot, age_ms=age, half_life_ms=half_life)
    expected = decayed(record, now_ms=age, half_life_ms=half_life)
    assert abs(Fraction(found, ONE) - expected) <= Fraction(1, 10**6) * (1 + expected)


@pytest.mark.slow
@given(st.integers(0, 10**9), st.integers(0, 10**4), st.lists(st.integers(0, 10**6), max_size=30))
def test_it_does_not_matter_how_often_a_row_is_brought_up_to_date(amount: int, held: int, steps: list[int]) -> None:
    half_life = 500_000
    stepwise = amount
    for step in steps:
        stepwise = rounded(value_after(stepwise, held, "cpu", age_ms=step, half_life_ms=half_life))
    at_once = rounded(value_after(amount, held, "cpu", age_ms=sum(steps), half_life_ms=half_life))
    assert abs(stepwise - at_once) <= len(steps) + 1


def test_a_second_of_a_device_is_a_thousand_and_a_second_of_half_a_core_five_hundred() -> None:
    year = 366 * 24 * HOUR * 1000
    assert rounded(value_after(0, 1, "cuda.device", age_ms=1000, half_life_ms=year)) == 1000
    assert rounded(value_after(0, 500, "cpu", age_ms=1000, half_life_ms=year)) == 500


def test_an_amount_has_an_upper_bound() -> None:
    assert rounded((USAGE_MAX + 5) * ONE) == USAGE_MAX


def test_slots_are_counted_in_cores_gibibytes_devices_and_whole_shares() -> None:
    assert [unit_of(slot) for slot in ("cpu", "mem", "cuda.mem", "cuda.device", "cuda.shares")] == [
        1000, 1 << 30, 1 << 30, 1, 1000,
    ]  # fmt: skip


def test_a_configured_weight_may_be_zero() -> None:
    assert slot_weight("mem", {"mem": 0}) == 0
    assert slot_weight("mem", {}) == 1


@given(st.integers(0, 10**6), st.integers(1, 64), st.integers(0, 10 * HOUR * 1000))
def test_what_slots_added_since_a_time_is_taken_off_exactly(amount: int, held: int, lost_ms: int) -> None:
    key = UsageKey("default", UsageScope.USER, "ada", "cuda.device")
    half_life_ms = HOUR * 1000
    before = PastUsage(key, amount=amount, held=0, at_ms=0)
    begun = PastUsage(key, amount=amount, held=held, at_ms=0)
    refund = UsageChange(-held, lost=((held, 0),))
    idle = changed_amount(before, UsageChange(), now_ms=lost_ms, half_life_ms=half_life_ms)
    assert changed_amount(begun, refund, now_ms=lost_ms, half_life_ms=half_life_ms) == idle


def test_a_refund_takes_at_most_what_is_left() -> None:
    row = PastUsage(UsageKey("default", UsageScope.USER, "ada", "cuda.device"), amount=5, held=0, at_ms=1000)
    assert changed_amount(row, UsageChange(lost=((8, 0),)), now_ms=2000, half_life_ms=HOUR * 1000) == 0
