"""Rates per minute are kept exactly, in integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sokovan.proxy.accounts.token_buckets import MINUTE_MS, TokenBucket


def test_a_full_minute_may_be_taken_at_once_and_then_comes_back_slowly() -> None:
    bucket = TokenBucket(60, 0)
    for _ in range(60):
        assert bucket.wait_ms(0) == 0
        bucket.take(0)

    assert bucket.wait_ms(0) == 1_000
    assert bucket.wait_ms(999) == 1
    assert bucket.wait_ms(1_000) == 0


def test_a_debt_is_paid_back_first() -> None:
    bucket = TokenBucket(100, 0)
    bucket.take(0, 250)

    assert bucket.wait_ms(0) == 90_600


def test_more_than_a_minute_allows_waits_for_a_full_bucket_only() -> None:
    bucket = TokenBucket(100, 0)

    assert bucket.wait_ms(0, 5_000) == 0
    bucket.take(0, 50)
    assert bucket.wait_ms(0, 5_000) == 30_000


def test_a_rate_of_zero_allows_nothing() -> None:
    assert TokenBucket(0, 0).wait_ms(MINUTE_MS * 10) == MINUTE_MS


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 5)), max_size=60), st.integers(1, 500))
def test_no_minute_has_more_than_twice_its_rate(steps: list[tuple[int, int]], rate: int) -> None:
    bucket, now_ms = TokenBucket(rate, 0), 0
    taken: list[tuple[int, int]] = []
    for pause_ms, amount in steps:
        now_ms += pause_ms
        if bucket.wait_ms(now_ms, amount) == 0:
            bucket.take(now_ms, amount)
            taken.append((now_ms, amount))
    for start, _ in taken:
        within = sum(amount for at, amount in taken if start <= at < start + MINUTE_MS)
        assert within <= 2 * rate + 5
