"""Revisions: what replicas run."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.errors import InvalidInput, InvalidSpec
from sokovan.domain.serving.revision import RequestLimits, RevisionSpec


def test_a_revision_has_the_timeouts_of_slow_models_by_default() -> None:
    spec = RevisionSpec(variant="vllm", model="org/llama")
    assert (spec.startup_timeout_s, spec.drain_timeout_s, spec.kernels) == (1800, 300, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"variant": "not a name"},
        {"model": "no name!"},
        {"model": "/not/mounted"},
        {"model": 7},
        {"image": "not an image"},
        {"command": "shell text"},
        {"arguments": ("\0",)},
        {"environment": {"SOKOVAN_X": "1"}},
        {"mounts": ("/data",)},
        {"resources": {"cpu": 1}},
        {"resources": {"no slot": "1"}},
        {"resources": dict.fromkeys((f"s{index}" for index in range(65)), "1")},
        {"kernels": 0},
        {"startup_timeout_s": 0},
        {"drain_timeout_s": -1},
        {"concurrency_max": 0},
        {"probe": "/health"},
    ],
)
def test_bad_values_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        RevisionSpec(**{"variant": "vllm"} | fields)


@pytest.mark.parametrize("fields", [{"queued_max": -1}, {"queue_wait_s": 0}, {"cold_wait_s": 3601}])
def test_limits_of_requests_are_bounded(fields: dict[str, int]) -> None:
    with pytest.raises(InvalidSpec):
        RequestLimits(**fields)
