"""Percentiles of the time to the first byte, from the histograms of proxies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sokovan.wire.serving.proxy_reports import FIRST_BYTE_BOUNDS_MS

_SLOTS = len(FIRST_BYTE_BOUNDS_MS) + 1


def summed(histograms: Iterable[Sequence[int]]) -> list[int]:
    """The sum of histograms; a missing count is 0."""
    total = [0] * _SLOTS
    for counts in histograms:
        for index, count in enumerate(counts[:_SLOTS]):
            total[index] += count
    return total


def percentile_ms(counts: Sequence[int], percent: int) -> int:
    """The time within which `percent` of 100 first bytes came; 0 if there were none.

    Between the bounds of a count, times are taken as evenly spread. Above the last bound it
    is that bound.
    """
    rank, below, low = -(-sum(counts) * percent // 100), 0, 0
    for count, high in zip(counts, FIRST_BYTE_BOUNDS_MS, strict=False):
        if count and below + count >= rank:
            return low + (high - low) * (rank - below) // count
        below, low = below + count, high
    return low if sum(counts) else 0
