"""Agents knock again, later each time, and not all at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sokovan.agent.link.backoff import STEADY_MS, Backoff, Redialling


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


def pauses(redialling: Redialling, *lasted_ms: int | None) -> list[float]:
    return [redialling.pause_s(lasted, chance=1.0) for lasted in lasted_ms]


def test_a_manager_that_is_away_is_dialled_less_and_less() -> None:
    away = Redialling(Backoff(first_s=1.0, most_s=30.0))

    assert pauses(away, *[None] * 7) == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_welcome_ends_the_account_of_dials_in_vain() -> None:
    redialling = Redialling(Backoff(first_s=1.0, most_s=30.0))

    assert pauses(redialling, *[None] * 6, 100, None, None) == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 1.0, 1.0, 2.0]


def test_a_manager_that_dies_soon_after_each_welcome_is_dialled_less_but_never_long_after() -> None:
    dying = Redialling(Backoff(first_s=1.0, most_s=30.0, welcomed_most_s=5.0))
    # In between it is not there for a moment, as it is while it starts again.
    found = pauses(dying, *[100, None] * 6)

    assert found[::2] == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert found[1::2] == [1.0] * 6


def test_a_link_that_lasted_forgives_everything() -> None:
    redialling = Redialling(Backoff(first_s=1.0))

    assert pauses(redialling, 100, 100, 100, STEADY_MS, 100) == [1.0, 2.0, 4.0, 1.0, 1.0]


def test_an_agent_with_a_short_patience_keeps_to_it() -> None:
    assert Backoff(first_s=1.0, most_s=2.0).delay_s(9, chance=1.0, welcomed=True) == 2.0
