"""Past usage in plain arithmetic: the sum over all intervals in which slots were held."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sokovan.domain.owners.past_usage import UsageKey
from sokovan.scheduling.snapshot import UsageRecord

PER_LN2 = Fraction(1 / math.log(2))
UNITS = {"cpu": 1000, "mem": 1 << 30}


@dataclass(frozen=True)
class HeldInterval:
    """Slots of a kernel: who held how much of them, from when, and until when."""

    keys: tuple[UsageKey, ...]
    amount: int
    held_ms: int
    freed_ms: int | None


def decayed(record: UsageRecord, *, now_ms: int, half_life_ms: int) -> Fraction:
    """The value of a record now; exact if its age is a whole number of half-lives."""
    factor = _factor(now_ms - record.at_ms, half_life_ms)
    held = Fraction(record.held, UNITS.get(record.slot, 1))
    return record.amount * factor + held * half_life_ms * PER_LN2 * (1 - factor)


def usage_of(intervals: Iterable[HeldInterval], *, now_ms: int, half_life_ms: int) -> dict[UsageKey, Fraction]:
    """The usage of every owner now, from the whole ledger."""
    found: dict[UsageKey, Fraction] = {}
    for one in intervals:
        end = now_ms if one.freed_ms is None else one.freed_ms
        length = _factor(now_ms - end, half_life_ms) - _factor(now_ms - one.held_ms, half_life_ms)
        for key in one.keys:
            used = Fraction(one.amount, UNITS.get(key.slot, 1)) * half_life_ms * PER_LN2 * length
            found[key] = found.get(key, Fraction(0)) + used
    return found


def _factor(age_ms: int, half_life_ms: int) -> Fraction:
    return Fraction(math.pow(0.5, max(0, age_ms) / half_life_ms))
