"""A lease covers what is used and reserved, asks for more, and is given back when idle."""

from __future__ import annotations

from sokovan.proxy.accounts.token_leases import IDLE_MS, LEASE_WANTED, LeaseTerm, TokenLease
from sokovan.wire.serving.proxy_reports import BudgetLease

TERM = LeaseTerm(end_ms=10_000_000, end_s=1_764_547_200)


def leased(tokens: int, *, unleased: int = 0) -> TokenLease:
    lease = TokenLease()
    lease.grant(BudgetLease(key_id="t", tokens=tokens, budget=1_000, unleased=unleased), TERM, 0)
    return lease


def test_a_request_within_the_lease_is_admitted() -> None:
    lease = leased(100)
    lease.reserved, lease.unstored = 30, 20

    assert lease.refusal(0, 50) is None


def test_a_request_beyond_the_budget_learns_what_is_left_and_when_it_is_renewed() -> None:
    refusal = leased(100).refusal(9_000_000, 101)

    assert refusal is not None
    assert (refusal.status, refusal.code, refusal.retry_after_s) == (429, "token-budget", 1_000)
    assert "100 of the key's 1000 tokens" in refusal.text
    assert "renewed at 2025-12-01T00:00:00Z" in refusal.text


def test_a_request_that_a_larger_lease_would_cover_waits_for_one() -> None:
    lease = leased(100, unleased=50)

    assert lease.refusal(0, 150) is LEASE_WANTED
    report = lease.report("t", 0)
    assert report is not None
    assert report.needed == 150


def test_a_lease_ends_with_its_month() -> None:
    lease = leased(100)

    assert lease.refusal(TERM.end_ms, 1) is LEASE_WANTED


def test_after_a_refusal_the_manager_is_asked_again() -> None:
    lease = leased(0)
    refused = lease.refusal(0, 10)

    assert refused is not None
    assert refused.code == "token-budget"
    report = lease.report("t", 0)
    assert report is not None
    assert report.needed == 10


def test_an_idle_lease_is_given_back_until_the_manager_heard_of_it() -> None:
    lease = leased(100)
    assert lease.refusal(5, 10) is None
    early = lease.report("t", IDLE_MS)
    assert early is not None
    assert not early.returned

    for _ in range(2):
        report = lease.report("t", IDLE_MS + 5)
        assert report is not None
        assert report.returned
    assert lease.refusal(IDLE_MS + 6, 10) is LEASE_WANTED, "what was given back is not used"
    lease.missing = 0
    lease.answered()
    assert lease.report("t", IDLE_MS + 7) is None


def test_a_lease_with_unstored_usage_is_not_given_back() -> None:
    lease = leased(100)
    lease.unstored = 1

    report = lease.report("t", IDLE_MS)
    assert report is not None
    assert not report.returned
