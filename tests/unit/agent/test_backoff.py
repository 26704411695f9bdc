"""Agents knock again, later each time, and not all at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sokovan.agent.backoff import Backoff


def test_the_wait_doubles_up_to_the_longest() -> None:
    waits = Backoff(first_s=1.0, most_s=10.0)

    assert [waits.delay_s(failures, chance=1.0) for failures in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@given(st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_the_wait_is_never_longer_than_the_longest_nor_shorter_than_half_of_the_first(
    failures: int, chance: float
) -> None:
    waits = Backoff(first_s=0.5, most_s=30.0)

    assert 0.25 <= waits.delay_s(failures, chance=chance) <= 30.0


def test_two_agents_of_different_chance_do_not_knock_together() -> None:
    assert Backoff().delay_s(3, chance=0.1) != Backoff().delay_s(3, chance=0.9)
