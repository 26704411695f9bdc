"""Monthly budgets of endpoint tokens, which proxies lease in parts.

All leases of a month together are at most the budget, so that it holds whatever a proxy
does while it does not reach the manager.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

MINUTE_S = 60
# A budget is leased in parts of this fraction, or of what a request needs.
PARTS = 64


class Month(NamedTuple):
    """A calendar month in UTC, in minutes since 1970; `end` is the first one after it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetNeed:
    """The tokens that a proxy needs for a key, beyond the usage that it reported.

    With `returned` it gives back its lease.
    """

    key_id: str
    tokens: int = 0
    returned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetGrant:
    """The tokens of a key that a proxy may use, after the usage that is stored.

    `unleased` are those of the month that no proxy has.
    """

    key_id: str
    tokens: int
    budget: int
    unleased: int


def month_of(minute: int) -> Month:
    """The month of a minute."""
    now = datetime.fromtimestamp(minute * MINUTE_S, UTC)
    start = datetime(now.year, now.month, 1, tzinfo=UTC)
    following = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    return Month(int(start.timestamp()) // MINUTE_S, int(following.timestamp()) // MINUTE_S)


def increase(*, budget: int, unleased: int, free: int, needed: int) -> int:
    """By how many tokens a lease with `free` unused ones grows.

    It grows when it does not cover what is needed, or is half used; never beyond the budget.
    """
    part = max(1, budget // PARTS)
    if free >= needed and 2 * free >= part:
        return 0
    return max(0, min(unleased, max(needed, part) - free))
