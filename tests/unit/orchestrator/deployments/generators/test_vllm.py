"""The definition of vLLM."""

from __future__ import annotations

from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.vllm import VllmGenerator

KEY = "key"


def test_the_command_divides_the_model_over_the_accelerators_and_waits_for_running_requests() -> None:
    asked = EngineRequest(
        variant="vllm", model="Qwen/Qwen3-8B", served_name="qwen", accelerators=2, secret=KEY, drain_timeout_s=60
    )
    found = VllmGenerator().define(asked)
    assert found.command == (
        *("vllm", "serve", "Qwen/Qwen3-8B", "--host", "127.0.0.1", "--port", "{port}"),
        *("--served-model-name", "qwen", "--tensor-parallel-size", "2", "--shutdown-timeout", "60"),
    )
    assert found.environment == {"VLLM_API_KEY": KEY}
    assert (found.probe.path, found.upstream_model) == ("/health", "qwen")
    assert found.event_usage == "usage"
