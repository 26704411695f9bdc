"""The number of replicas follows demand within its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.serving.scaling import (
    DemandSample,
    ScalingInput,
    ScalingMetric,
    ScalingPolicy,
    decide_scale,
)

TRACKING = ScalingPolicy(metric=ScalingMetric.CONCURRENCY)


def scaled(demand: list[int], *, desired: int = 1, ready: int = 1, **options: Any) -> int:
    """The decision after one sample a second; the last one is now."""
    now = 1000 * len(demand)
    samples = [DemandSample(1000 * (place + 1), value, desired) for place, value in enumerate(demand)]
    values = {"policy": TRACKING, "target": 10, "bounds": (0, 100), "now_ms": now, "desired": desired, "ready": ready}
    return decide_scale(ScalingInput(samples=samples, **{**values, **options})).desired


def test_manual_scaling_follows_the_bounds_only() -> None:
    assert scaled([1000], desired=7, policy=ScalingPolicy(), bounds=(2, 5)) == 5
    assert scaled([0], desired=1, policy=ScalingPolicy(), bounds=(2, 5)) == 2
    assert scaled([0], desired=3, policy=ScalingPolicy(), bounds=(2, 5)) == 3


def test_the_number_follows_the_mean_demand_rounded_up() -> None:
    assert scaled([25] * 60, desired=2, ready=2) == 3


def test_growth_is_at_most_doubling_or_four_more() -> None:
    assert scaled([1000] * 60, desired=1, ready=1) == 5
    assert scaled([1000] * 60, desired=8, ready=8) == 16


def test_a_burst_causes_panic_and_no_scaling_down() -> None:
    samples = [DemandSample(1000 * place, 0 if place < 55 else 60, 2) for place in range(61)]
    given_ = ScalingInput(
        policy=TRACKING, target=10, bounds=(0, 100), samples=samples, desired=2, ready=2, now_ms=60_000
    )
    decision = decide_scale(given_)
    assert decision.desired == 6
    assert decision.panic_until_ms == 120_000


def test_replicas_that_start_count_as_capacity() -> None:
    assert scaled([20] * 60, desired=2, ready=0) == 2


def test_scaling_down_waits_for_the_highest_demand_of_five_minutes() -> None:
    assert scaled([80, *[0] * 299], desired=8, ready=8) == 8
    assert scaled([80, *[10] * 301], desired=8, ready=8) == 1


def test_the_default_target_is_seventy_percent_of_the_concurrency() -> None:
    assert ScalingPolicy().target_of(100) == 70
    assert ScalingPolicy().target_of(1) == 1
    assert ScalingPolicy(target=5).target_of(100) == 5


@pytest.mark.parametrize(
    "fields",
    [
        {"target": 0},
        {"stable_s": 0},
        {"metric": "cpu"},
        {"metric": ScalingMetric.QPS},
        {"metric": ScalingMetric.QUEUE},
        {"idle_s": 10**9},
    ],
)
def test_a_policy_is_checked(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        ScalingPolicy(**fields)


@given(
    demand=st.lists(st.integers(0, 10**6), max_size=80),
    desired=st.integers(0, 50),
    ready=st.integers(0, 50),
    bounds=st.tuples(st.integers(0, 5), st.integers(5, 40)),
)
def test_a_decision_is_within_bounds_and_grows_within_limits(
    demand: list[int], desired: int, ready: int, bounds: tuple[int, int]
) -> None:
    after = scaled(demand, desired=desired, ready=ready, bounds=bounds)
    assert bounds[0] <= after <= bounds[1]
    assert after <= max(2 * desired, desired + 4, bounds[0])


@given(demand=st.lists(st.integers(0, 1000), min_size=1, max_size=80), desired=st.integers(1, 50))
def test_more_demand_never_means_fewer_replicas(demand: list[int], desired: int) -> None:
    higher = [value + 10 for value in demand]
    assert scaled(higher, desired=desired, ready=desired) >= scaled(demand, desired=desired, ready=desired)


def test_the_last_replica_stays_until_the_deployment_was_idle_long_enough() -> None:
    assert scaled([0] * 60, desired=1, ready=1, idle_ms=299_000) == 1
    assert scaled([0] * 60, desired=1, ready=1, idle_ms=300_000) == 0
    assert scaled([0] * 60, desired=0, ready=0, idle_ms=0) == 0


def test_a_queue_wants_replicas_beyond_those_that_requests_in_flight_fill() -> None:
    by_queue = ScalingPolicy(metric=ScalingMetric.QUEUE, target=10)
    wanted = [
        scaled([by_queue.queue_demand(in_flight, queued, 8)] * 60, desired=3, ready=3, policy=by_queue)
        for in_flight, queued in ((8, 0), (16, 0), (16, 11), (17, 20))
    ]
    assert wanted == [1, 2, 4, 5]
