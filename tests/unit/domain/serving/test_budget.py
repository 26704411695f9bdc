"""Months are calendar months in UTC; leases never exceed the budget."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.serving.budget import PARTS, increase, month_of


def minute(year: int, month: int, day: int, minute_of_day: int = 0) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp()) // 60 + minute_of_day


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        (minute(2026, 11, 16, 750), minute(2026, 11, 1), minute(2026, 12, 1)),
        (minute(2026, 12, 31, 1439), minute(2026, 12, 1), minute(2027, 1, 1)),
        (minute(2028, 2, 29), minute(2028, 2, 1), minute(2028, 3, 1)),
        (minute(2027, 1, 1), minute(2027, 1, 1), minute(2027, 2, 1)),
    ],
)
def test_a_month_is_one_of_the_calendar(now: int, start: int, end: int) -> None:
    assert month_of(now) == (start, end)


def test_a_lease_grows_by_parts_and_for_large_requests_by_what_they_need() -> None:
    assert increase(budget=6_400, unleased=6_400, free=0, needed=1) == 6_400 // PARTS
    assert increase(budget=6_400, unleased=6_400, free=60, needed=50) == 0
    assert increase(budget=6_400, unleased=6_400, free=40, needed=30) == 60
    assert increase(budget=6_400, unleased=6_400, free=10, needed=5_000) == 4_990
    assert increase(budget=6_400, unleased=30, free=0, needed=50) == 30


@given(st.integers(1, 10**6), st.lists(st.integers(0, 10**6), max_size=20))
def test_leases_together_are_at_most_the_budget(budget: int, needs: list[int]) -> None:
    leased = 0
    for needed in needs:
        grown = increase(budget=budget, unleased=budget - leased, free=0, needed=needed)
        assert grown >= 0
        leased += grown
    assert leased <= budget
