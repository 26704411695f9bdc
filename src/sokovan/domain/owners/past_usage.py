"""Past usage of owners, which decays with a half-life; in whole numbers only.

A usage row holds an amount as of a time, and the slots held since then (`held`). At a
later time its value is

    amount * 2^(-age/half_life)  +  held * half_life/ln 2 * (1 - 2^(-age/half_life))

The second term is the integral of the decay over the time for which the slots were held,
so it does not matter when or how often a row is brought up to date. Amounts are in
milliseconds of one core, one GiB, one device or one whole share; values have 96 binary
places (`ONE`), and the same numbers result on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import lru_cache
from math import isqrt
from typing import NamedTuple

from sokovan.domain.slot_notation import COUNT, CPU, MEMORY, SHARES, kind_of

HALF_LIFE_DEFAULT_S = 7 * 24 * 3600
HALF_LIFE_MAX_S = 366 * 24 * 3600
SLOT_WEIGHT_MAX = 1_000_000
# The bound of a stored amount. Only statistics: at the bound the order of the largest owners is lost, not a slot.
USAGE_MAX = 2**62

_BITS = 96
ONE = 1 << _BITS
_HALF = ONE >> 1
# 2^96 / ln 2
_PER_LN2 = 114_302_077_158_074_026_402_637_675_936
# Binary places of age/half_life: far finer than a millisecond of the longest half-life.
_ROOTS = 64
_GIB = 1 << 30
# One device weighs as much as 10 cores or 40 GiB.
_WEIGHTS = {CPU.name: 4, MEMORY.name: 1, SHARES.name: 40, COUNT.name: 40}


class UsageScope(StrEnum):
    """The kinds of names that usage is recorded for."""

    USER = auto()
    GROUP = auto()
    QUEUE = auto()


class UsageKey(NamedTuple):
    """A slot of a scaling group, used by one user, group or queue."""

    scaling_group: str
    scope: UsageScope
    name: str
    slot: str


@dataclass(frozen=True, slots=True)
class PastUsage:
    """Past usage as of a time, and the slots held since."""

    key: UsageKey
    amount: int
    held: int
    at_ms: int


def _roots() -> tuple[int, ...]:
    """2 to the power of -1/2, -1/4, -1/8, ..."""
    found, root = [], _HALF
    for _ in range(_ROOTS):
        root = isqrt(root << _BITS)
        found.append(root)
    return tuple(found)


_ROOT_OF = _roots()


@lru_cache(maxsize=4096)
def decay(age: int, half_life: int) -> int:
    """2 to the power of -age/half_life, with 96 binary places.

    >>> decay(0, 10) == ONE, decay(10, 10) == ONE // 2, decay(20, 10) == ONE // 4
    (True, True, True)
    """
    halvings, rest = divmod(age, half_life)
    if halvings > _BITS:
        return 0
    factor, fraction = ONE, (rest << _ROOTS) // half_life
    for place, root in enumerate(_ROOT_OF, start=1):
        if fraction >> (_ROOTS - place) & 1:
            factor = (factor * root) >> _BITS
    return factor >> halvings


def value_after(amount: int, held: int, slot: str, *, age_ms: int, half_life_ms: int) -> int:
    """The value of a row some time later, with 96 binary places."""
    factor = decay(max(0, age_ms), half_life_ms)
    if not held:
        return amount * factor
    held_ms = half_life_ms * _PER_LN2 * (ONE - factor) >> _BITS
    return amount * factor + held * held_ms // unit_of(slot)


class UsageChange(NamedTuple):
    """A change of a usage row: of the slots that are held, and of the amount.

    `lost` are slots whose work was lost by an eviction, each with the time since when: what they
    have added to the value since then is taken off.
    """

    held: int = 0
    added: int = 0
    lost: tuple[tuple[int, int], ...] = ()


def changed_amount(row: PastUsage, change: UsageChange, *, now_ms: int, half_life_ms: int) -> int:
    """The amount of a row now, with a change; a refund takes at most what is left."""
    slot = row.key.slot
    value = value_after(row.amount, row.held, slot, age_ms=now_ms - row.at_ms, half_life_ms=half_life_ms)
    for held, since_ms in change.lost:
        value -= value_after(0, held, slot, age_ms=now_ms - since_ms, half_life_ms=half_life_ms)
    return min(max(0, rounded(max(0, value)) + change.added), USAGE_MAX)


def rounded(value: int) -> int:
    """A value as a whole number, at most USAGE_MAX."""
    return min((value + _HALF) >> _BITS, USAGE_MAX)


def unit_of(slot: str) -> int:
    """The number of stored units in one unit of usage: a core, a GiB, a device.

    >>> unit_of("cpu"), unit_of("mem") == 2**30, unit_of("cuda.device")
    (1000, True, 1)
    """
    kind = kind_of(slot)
    return _GIB if kind is MEMORY else kind.parts


def slot_weight(slot: str, weights: Mapping[str, int]) -> int:
    """How much one unit of a slot counts: as configured, or the default of its kind.

    >>> slot_weight("cuda.device", {}), slot_weight("cpu", {}), slot_weight("cpu", {"cpu": 7})
    (40, 4, 7)
    """
    known = weights.get(slot)
    return _WEIGHTS[kind_of(slot).name] if known is None else known
