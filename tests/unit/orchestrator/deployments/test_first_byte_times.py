"""Percentiles of histograms."""

from __future__ import annotations

import pytest

from sokovan.orchestrator.deployments.first_byte_times import percentile_ms, summed
from sokovan.wire.serving.proxy_reports import FIRST_BYTE_BOUNDS_MS


def counts(**by_bound: int) -> list[int]:
    return [by_bound.get(f"ms{bound}", 0) for bound in FIRST_BYTE_BOUNDS_MS] + [by_bound.get("more", 0)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (counts(), 0),
        (counts(ms50=100), 48),
        (counts(ms50=90, ms100=10), 75),
        (counts(ms50=95, ms1000=5), 50),
        (counts(more=3), 300_000),
    ],
)
def test_a_percentile_is_between_the_bounds_of_its_count(given: list[int], expected: int) -> None:
    assert percentile_ms(given, 95) == expected


def test_histograms_are_added_and_missing_counts_are_zero() -> None:
    assert summed([(1, 2), (), (0, 1, 5)])[:4] == [1, 3, 5, 0]
