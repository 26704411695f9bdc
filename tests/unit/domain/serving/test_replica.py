"""Replicas: their places, endpoints, and the delay between attempts."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import InvalidName, InvalidSpec
from sokovan.domain.ids import AgentId, DeploymentId, KernelId
from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.serving.replica import Endpoint, is_crash_loop, restart_due_ms


def test_a_place_has_one_key_per_attempt() -> None:
    assert ReplicaPlace(DeploymentId("d1"), 2, 0, 3).key == "replica/d1/2/0/3"


@pytest.mark.parametrize("numbers", [(0, 0, 1), (1, -1, 1), (1, 0, 0)])
def test_numbers_of_a_place_are_checked(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidSpec):
        ReplicaPlace(DeploymentId("d1"), *numbers)


def test_a_restarted_kernel_is_another_endpoint() -> None:
    first, second = (Endpoint(KernelId("k1"), attempt, AgentId("a1"), 8000) for attempt in (1, 2))
    assert (first.endpoint_id, second.endpoint_id) == ("k1.1", "k1.2")


def test_an_endpoint_has_a_kernel_and_a_port() -> None:
    with pytest.raises(InvalidName):
        Endpoint(KernelId(""), 1, AgentId("a1"), 8000)
    for port in (0, 65_536):
        with pytest.raises(InvalidSpec):
            Endpoint(KernelId("k1"), 1, AgentId("a1"), port)


def test_the_delay_grows_from_ten_seconds_to_five_minutes() -> None:
    delays = [restart_due_ms([0] * failures) for failures in range(8)]
    assert delays == [0, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]


def test_three_failures_in_ten_minutes_are_a_crash_loop() -> None:
    assert not is_crash_loop([0, 1], 1)
    assert is_crash_loop([0, 1, 2], 2)
    assert is_crash_loop([0, 1, 2], 599_999)
    assert not is_crash_loop([0, 1, 2], 600_000)


def test_replicas_that_serve_forgive_as_many_failures() -> None:
    assert not is_crash_loop([0, 1, 2], 2, serving=1)
    assert is_crash_loop([0, 1, 2, 3], 3, serving=1)
    assert restart_due_ms([0] * 6, serving=5) == restart_due_ms([0]) == 10_000
    assert restart_due_ms([0] * 2, serving=90) == 10_000, "a failure is never answered at once"
