"""Held slots over time, as means of equal steps."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.owners.usage_history import LedgerSum, UsageWindow, default_step_ms, mean_levels

WINDOW = UsageWindow(1_000, 36_000, 10_000)


def test_a_level_goes_on_until_it_is_freed() -> None:
    # Eight are held from the start; two of them are freed in the middle of the second step.
    assert mean_levels(WINDOW, 8, {}, {1: LedgerSum(2, 2 * 15_000)}) == (8, 7, 6, 6)


def test_what_is_taken_and_freed_within_a_step_counts_by_its_time() -> None:
    taken, freed = {2: LedgerSum(10, 10 * 21_000)}, {2: LedgerSum(10, 10 * 26_000)}
    assert mean_levels(WINDOW, 0, taken, freed) == (0, 0, 5, 0)


def test_the_last_step_may_be_shorter() -> None:
    assert WINDOW.steps == 4
    assert mean_levels(WINDOW, 0, {3: LedgerSum(4, 4 * 32_500)}, {}) == (0, 0, 0, 2)


def test_bytes_over_a_month_stay_exact_enough() -> None:
    month = UsageWindow(0, 30 * 86_400_000, 86_400_000)
    amount = 2**50
    means = mean_levels(month, 0, {0: LedgerSum(amount, 0.0)}, {29: LedgerSum(amount, amount * (30 * 86_400_000.0))})
    assert all(abs(mean - amount) <= amount >> 40 for mean in means)


@pytest.mark.parametrize(
    ("window", "field"), [((5, 5, 10_000), "since"), ((0, 9, 9_999), "step"), ((0, 10**8, 10_000), "step")]
)
def test_a_window_that_is_none_is_refused(window: tuple[int, int, int], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        UsageWindow(*window)
    assert refused.value.field == field


def test_a_day_has_steps_of_a_quarter_of_an_hour() -> None:
    assert default_step_ms(86_400_000) == 900_000
    assert default_step_ms(60_000) == 10_000
    assert UsageWindow(0, 366 * 86_400_000, default_step_ms(366 * 86_400_000)).steps <= 96
