"""Admission of requests by the limits of their key.

Tokens are reserved by the request's own limit and settled after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sokovan.proxy.accounts.token_buckets import TokenBucket
from sokovan.proxy.accounts.token_leases import LeaseTerm, TokenLease
from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.wire.serving.proxy_reports import BUDGETS_MAX, BudgetLease, BudgetReport
from sokovan.wire.serving.route_table import KeyEntry, KeyLimits

# Reserved for a request that does not limit its output.
TOKENS_DEFAULT = 1_024


@dataclass(slots=True)
class KeyAccount:
    """The use of one key in one proxy."""

    limits: KeyLimits
    requests: TokenBucket | None = None
    tokens: TokenBucket | None = None
    under_way: int = 0
    lease: TokenLease = field(default_factory=TokenLease)


class KeyAccounts:
    """The accounts of all keys; each of `workers` gets an equal part of every limit."""

    def __init__(self, *, workers: int = 1) -> None:
        self._workers = workers
        self._accounts: dict[str, KeyAccount] = {}

    def admit(self, key: KeyEntry, now_ms: int, *, tokens: int = TOKENS_DEFAULT) -> ProxyRefusal | None:
        """Count a request, or say which limit refuses it; `settle` ends it."""
        account = self._account(key, now_ms)
        refusal = self._refusal(account, now_ms, tokens)
        if refusal is None:
            account.under_way += 1
            account.lease.reserved += tokens
            if account.requests:
                account.requests.take(now_ms)
            if account.tokens:
                account.tokens.take(now_ms, tokens)
        return refusal

    def settle(self, key: KeyEntry, now_ms: int, *, reserved: int, used: int) -> None:
        """End a request: what was reserved is replaced by what was used."""
        account = self._account(key, now_ms)
        account.under_way -= 1
        account.lease.reserved -= reserved
        account.lease.unstored += used
        if account.tokens:
            account.tokens.take(now_ms, used - reserved)

    def lease(self, leases: Iterable[BudgetLease], term: LeaseTerm, unstored: Mapping[str, int]) -> None:
        """Take over the leases of budgets; each is whole, so that one may come twice.

        `unstored` is the usage of this month that the manager has not stored, by key.
        """
        for account in self._accounts.values():
            account.lease.answered()
        for lease in leases:
            if lease.key_id in self._accounts:
                self._accounts[lease.key_id].lease.grant(lease, term, unstored.get(lease.key_id, 0))

    def budgets(self, now_ms: int) -> tuple[BudgetReport, ...]:
        """The needs of budgeted keys, for the manager."""
        found = (
            account.lease.report(key_id, now_ms)
            for key_id, account in self._accounts.items()
            if account.limits.budgeted
        )
        return tuple(one for one in found if one is not None)[:BUDGETS_MAX]

    def keep(self, keys: Iterable[str]) -> None:
        """Forget keys that are gone and have no request."""
        kept = set(keys)
        for key_id in [one for one, account in self._accounts.items() if one not in kept and not account.under_way]:
            del self._accounts[key_id]

    def _account(self, key: KeyEntry, now_ms: int) -> KeyAccount:
        account = self._accounts.get(key.key_id)
        if account is None:
            account = self._accounts[key.key_id] = KeyAccount(KeyLimits())
        if account.limits is not key.limits and account.limits != key.limits:
            account.limits = key.limits
            account.requests = self._bucket(key.limits.requests_per_minute, now_ms)
            account.tokens = self._bucket(key.limits.tokens_per_minute, now_ms)
        return account

    def _bucket(self, per_minute: int | None, now_ms: int) -> TokenBucket | None:
        return None if per_minute is None else TokenBucket(self._part(per_minute), now_ms)

    def _part(self, amount: int) -> int:
        return max(1, amount // self._workers) if amount else 0

    def _refusal(self, account: KeyAccount, now_ms: int, tokens: int) -> ProxyRefusal | None:
        limits = account.limits
        if limits.concurrency_max is not None and account.under_way >= self._part(limits.concurrency_max):
            text = f"the key has {account.under_way} requests under way, its limit is {limits.concurrency_max}"
            return ProxyRefusal(429, "concurrency-limit", text, retry_after_s=1)
        if account.requests and (wait_ms := account.requests.wait_ms(now_ms)):
            text = f"the key may send {limits.requests_per_minute} requests per minute"
            return ProxyRefusal(429, "request-rate", text, retry_after_s=_seconds(wait_ms))
        if account.tokens and (wait_ms := account.tokens.wait_ms(now_ms, tokens)):
            text = f"the key may use {limits.tokens_per_minute} tokens per minute"
            return ProxyRefusal(429, "token-rate", text, retry_after_s=_seconds(wait_ms))
        return account.lease.refusal(now_ms, tokens) if limits.budgeted else None


def _seconds(milliseconds: int) -> int:
    return max(1, -(-milliseconds // 1000))
