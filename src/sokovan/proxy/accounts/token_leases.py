"""The part of a key's monthly budget that one proxy may use.

The lease covers usage that the manager has not stored yet, and what requests under way
have reserved. It holds while the manager is away, until its month ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.wire.serving.proxy_reports import BudgetLease, BudgetReport

# A lease that no request used for so long is given back.
IDLE_MS = 60_000
# Not a final answer: the request waits for the next lease.
LEASE_WANTED = ProxyRefusal(
    503, "budget-lease", "the manager has not leased tokens of the key's budget to this proxy", retry_after_s=5
)


@dataclass(frozen=True, slots=True)
class LeaseTerm:
    """The month of leases: `end_ms` of the monotonic clock, `end_s` of the day."""

    end_ms: int
    end_s: int


@dataclass(slots=True)
class TokenLease:
    """The budget of one key in one proxy.

    `unstored` are tokens that were used and are not stored by the manager, `missing` those
    that waiting requests need.
    """

    terms: BudgetLease | None = None
    term: LeaseTerm | None = None
    unstored: int = 0
    reserved: int = 0
    missing: int = 0
    used_ms: int = 0
    returns: bool = False

    def refusal(self, now_ms: int, tokens: int) -> ProxyRefusal | None:
        """Why a request that may need these tokens is not admitted; None if it is."""
        self.used_ms = now_ms
        terms, term = self.terms, self.term
        if terms is None or term is None or now_ms >= term.end_ms:
            self.missing += tokens
            return LEASE_WANTED
        free = terms.tokens - self.unstored - self.reserved
        if tokens <= free:
            return None
        if free + terms.unleased >= tokens:
            self.missing += tokens
            return LEASE_WANTED
        # Another proxy may give its lease back: the next report asks again.
        self.missing = max(self.missing, tokens)
        renewed = datetime.fromtimestamp(term.end_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = (
            f"the request may use {tokens} tokens, and {max(0, free) + terms.unleased} of the key's "
            f"{terms.budget} tokens per month are left; the budget is renewed at {renewed}"
        )
        return ProxyRefusal(429, "token-budget", text, retry_after_s=max(1, (term.end_ms - now_ms) // 1000))

    def grant(self, terms: BudgetLease, term: LeaseTerm, unstored: int) -> None:
        """Take over a lease; `unstored` is the usage that it does not include yet."""
        self.terms, self.term, self.unstored, self.missing = terms, term, unstored, 0

    def report(self, key_id: str, now_ms: int) -> BudgetReport | None:
        """The report of what the manager should lease; None if nothing changes."""
        held = self.terms is not None and self.terms.tokens > 0
        idle = now_ms - self.used_ms >= IDLE_MS and not (self.reserved or self.unstored or self.missing)
        if held and idle:
            # It is not used from here on, whether the manager hears of it or not.
            self.terms, self.returns = None, True
        if self.returns and not self.missing:
            return BudgetReport(key_id=key_id, returned=True)
        if not (self.missing or held):
            return None
        return BudgetReport(key_id=key_id, needed=self.reserved + self.missing)

    def answered(self) -> None:
        """Take note that the last report was stored."""
        self.returns = False
