"""Retries: only before the first byte, only what may be repeated, a fifth at most."""

from __future__ import annotations

import pytest

from sokovan.proxy.routing.retries import RetryBudget, may_retry


@pytest.mark.parametrize(
    ("tries", "sent", "repeatable", "kept", "allowed"),
    [
        (1, False, False, True, True),
        (2, False, False, True, True),
        (3, False, False, True, False),
        (1, True, False, True, False),
        (1, True, True, True, True),
        (1, False, True, False, False),
    ],
)
def test_a_request_is_tried_again_only_if_that_is_safe(
    *, tries: int, sent: bool, repeatable: bool, kept: bool, allowed: bool
) -> None:
    assert may_retry(tries=tries, sent=sent, repeatable=repeatable, kept=kept) is allowed


def test_at_most_a_fifth_of_the_requests_is_retried() -> None:
    budget, retried = RetryBudget(), 0
    for _ in range(1_000):
        budget.earn()
        retried += budget.spend()

    assert 200 <= retried <= 300, "a fifth, and those that were saved up"
    assert budget.spent == retried
