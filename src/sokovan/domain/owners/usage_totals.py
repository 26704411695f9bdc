"""Past usage of users, groups and queues as of one time, summed over slots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sokovan.domain.owners.past_usage import ONE, PastUsage, UsageScope, rounded, slot_weight, value_after


@dataclass(slots=True)
class UsageTotal:
    """The usage of one user, group or queue in a scaling group, in milliseconds.

    `slots` has core, GiB and device milliseconds; `weighted` is their sum by slot weight.
    """

    scope: UsageScope
    name: str
    slots: dict[str, int] = field(default_factory=dict)
    weighted: int = 0


def usage_totals(
    rows: Iterable[PastUsage], *, now_ms: int, half_life_s: int, slot_weights: Mapping[str, int]
) -> list[UsageTotal]:
    """The totals of rows of one scaling group, in the order of the rows."""
    found: dict[tuple[UsageScope, str], UsageTotal] = {}
    for row in rows:
        key = row.key
        value = value_after(row.amount, row.held, key.slot, age_ms=now_ms - row.at_ms, half_life_ms=half_life_s * 1000)
        total = found.setdefault((key.scope, key.name), UsageTotal(key.scope, key.name))
        total.slots[key.slot] = rounded(value)
        total.weighted += value * slot_weight(key.slot, slot_weights) // ONE
    return list(found.values())
