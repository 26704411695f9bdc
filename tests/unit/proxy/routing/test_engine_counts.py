"""Counts of requests in the metrics of engines, each with names of its own."""

from __future__ import annotations

import pytest

from sokovan.proxy.routing.engine_counts import COUNT_MAX, engine_counts

VLLM = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a {b} \\"c\\""} 3.0
vllm:num_requests_running{engine="1",model_name="a {b} \\"c\\""} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a"} 7.0
vllm:num_requests_waiting_by_reason{reason="capacity"} 5.0
"""


def test_the_processes_of_a_replica_are_added() -> None:
    assert engine_counts(VLLM) == (5, 7)


@pytest.mark.parametrize(
    ("running", "waiting"),
    [
        ('sglang:num_running_reqs{model_name="m"}', 'sglang:num_queue_reqs{model_name="m"}'),
        ("tgi_batch_current_size", "tgi_queue_size"),
        ("llamacpp:requests_processing", "llamacpp:requests_deferred"),
        ("num_requests_running", "num_requests_waiting"),
        ("toy_requests_running", "toy_requests_waiting"),
    ],
)
def test_each_engine_has_its_own_names(running: str, waiting: str) -> None:
    assert engine_counts(f"other 9\n{running} 1\n{waiting} 2e1 1700000000\n".encode()) == (1, 20)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "toy_requests_running 1\n",
        "toy_requests_running 1\ntoy_requests_waiting -1\n",
        "toy_requests_running 1\ntoy_requests_waiting NaN\n",
        "toy_requests_running 1\ntoy_requests_waiting 1.2.3\n",
        f"toy_requests_running {COUNT_MAX + 1}\ntoy_requests_waiting 0\n",
        "toy_requests_running 1e999\ntoy_requests_waiting 0\n",
        "# toy_requests_running 1\n# toy_requests_waiting 1\n",
    ],
)
def test_an_engine_that_does_not_say_both_says_nothing(text: str) -> None:
    assert engine_counts(text.encode()) is None


@pytest.mark.slow
def test_metrics_of_a_hostile_engine_cost_linear_time() -> None:
    assert engine_counts(b"toy_requests_running{" * 50_000) is None
    assert engine_counts(b"toy_requests_running{\n" * 50_000) is None
    assert engine_counts(b"toy_requests_running" + b" " * 1_000_000) is None
