"""The definition of MAX."""

from __future__ import annotations

import pytest

from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.max import MaxGenerator


@pytest.mark.parametrize(("accelerators", "devices"), [(0, "cpu"), (1, "gpu:0"), (3, "gpu:0,1,2")])
def test_the_devices_are_those_of_the_replica(accelerators: int, devices: str) -> None:
    asked = EngineRequest(variant="max", model="a/b", served_name="m", accelerators=accelerators)
    found = MaxGenerator().define(asked)
    assert found.command == ("max", "serve", "--model", "a/b", "--devices", devices)
    assert found.environment == {"MAX_SERVE_HOST": "127.0.0.1", "MAX_SERVE_PORT": "{port}"}
    assert (found.probe.path, found.upstream_model) == ("/v1/health", "a/b")
