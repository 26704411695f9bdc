"""Each limit of a key refuses with its own code and says when to try again."""

from __future__ import annotations

from typing import Any

from sokovan.proxy.accounts.key_limits import KeyAccounts
from sokovan.proxy.accounts.token_leases import LEASE_WANTED, LeaseTerm
from sokovan.wire.serving.proxy_reports import BudgetLease
from sokovan.wire.serving.route_table import KeyEntry, KeyLimits

TERM = LeaseTerm(end_ms=10**9, end_s=2_000_000_000)


def leased(key_id: str, tokens: int) -> BudgetLease:
    return BudgetLease(key_id=key_id, tokens=tokens, budget=tokens)


def key(**limits: Any) -> KeyEntry:
    return KeyEntry(key_id="t1", digest="a" * 64, limits=KeyLimits(**limits))


def code(accounts: KeyAccounts, caller: KeyEntry, now_ms: int = 0, tokens: int = 10) -> str:
    refusal = accounts.admit(caller, now_ms, tokens=tokens)
    if refusal is None:
        return ""
    assert refusal.status == 429
    assert refusal.retry_after_s
    return refusal.code


def test_a_key_without_limits_is_never_refused() -> None:
    accounts = KeyAccounts()

    assert {code(accounts, key()) for _ in range(1_000)} == {""}


def test_requests_under_way_are_limited_until_they_end() -> None:
    accounts, caller = KeyAccounts(), key(concurrency_max=2)
    assert [code(accounts, caller) for _ in range(3)] == ["", "", "concurrency-limit"]

    accounts.settle(caller, 0, reserved=10, used=3)
    assert not code(accounts, caller)


def test_requests_per_minute_are_limited() -> None:
    accounts, caller = KeyAccounts(), key(requests_per_minute=2)

    assert [code(accounts, caller) for _ in range(3)] == ["", "", "request-rate"]
    assert not code(accounts, caller, now_ms=30_000)


def test_tokens_are_reserved_and_settled() -> None:
    accounts, caller = KeyAccounts(), key(tokens_per_minute=100)
    assert not code(accounts, caller, tokens=60)
    assert code(accounts, caller, tokens=60) == "token-rate"

    accounts.settle(caller, 0, reserved=60, used=5)
    assert not code(accounts, caller, tokens=60)


def test_a_budget_is_used_only_as_far_as_it_was_leased() -> None:
    accounts, caller = KeyAccounts(), key(budgeted=True)
    assert accounts.admit(caller, 0, tokens=10) is LEASE_WANTED

    accounts.lease([leased("t1", 25), leased("unknown", 1)], TERM, {})
    assert [code(accounts, caller) for _ in range(3)] == ["", "", "token-budget"]
    accounts.settle(caller, 0, reserved=10, used=4)
    assert not code(accounts, caller)
    [report] = accounts.budgets(0)
    assert (report.key_id, report.needed) == ("t1", 20 + 10), "what is reserved, and what was refused"


def test_processes_share_the_limits_of_a_key() -> None:
    accounts, caller = KeyAccounts(workers=4), key(concurrency_max=8)

    assert [code(accounts, caller) for _ in range(3)] == ["", "", "concurrency-limit"]


def test_a_new_limit_is_in_force_at_once() -> None:
    accounts = KeyAccounts()
    assert not code(accounts, key(concurrency_max=1))

    assert not code(accounts, key(concurrency_max=2))


def test_a_key_that_is_gone_is_forgotten_after_its_last_request() -> None:
    accounts, caller = KeyAccounts(), key(budgeted=True)
    accounts.admit(caller, 0)
    accounts.lease([leased("t1", 100)], TERM, {})
    assert not code(accounts, caller)
    accounts.keep([])
    assert len(accounts.budgets(0)) == 1

    accounts.settle(caller, 0, reserved=10, used=1)
    accounts.keep([])
    assert not accounts.budgets(0)
