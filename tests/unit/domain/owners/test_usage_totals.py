"""Totals of past usage."""

from __future__ import annotations

from functools import partial

from sokovan.domain.owners.past_usage import PastUsage, UsageKey, UsageScope
from sokovan.domain.owners.usage_totals import usage_totals

totals = partial(usage_totals, half_life_s=100, slot_weights={"cpu": 10})


def row(name: str, slot: str, amount: int, *, scope: UsageScope = UsageScope.USER, held: int = 0) -> PastUsage:
    return PastUsage(UsageKey("gpu", scope, name, slot), amount, held, at_ms=0)


def test_slots_are_decayed_and_summed_by_weight() -> None:
    rows = [row("ada", "cpu", 8000), row("ada", "cuda.device", 4000), row("ada", "cpu", 2, scope=UsageScope.GROUP)]
    user, group = totals(rows, now_ms=100_000)
    assert (user.name, user.slots, user.weighted) == ("ada", {"cpu": 4000, "cuda.device": 2000}, 120_000)
    assert (group.scope, group.slots, group.weighted) == (UsageScope.GROUP, {"cpu": 1}, 10)


def test_what_is_held_counts_until_now() -> None:
    (user,) = totals([row("ada", "cuda.device", 0, held=2)], now_ms=1000)
    assert 1990 < user.slots["cuda.device"] < 2000
