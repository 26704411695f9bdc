"""The definition of SGLang."""

from __future__ import annotations

from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.sglang import SglangGenerator

KEY = "key"


def test_the_command_names_model_port_and_key() -> None:
    asked = EngineRequest(variant="sglang", model="Qwen/Qwen3-8B", served_name="qwen", accelerators=4, secret=KEY)
    found = SglangGenerator().define(asked)
    assert found.event_usage == "usage"
    assert found.command == (
        *("python", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B", "--host", "127.0.0.1"),
        *("--port", "{port}", "--served-model-name", "qwen", "--tp", "4", "--enable-metrics", "--api-key", KEY),
    )


def test_the_probe_is_not_the_list_of_models_which_answers_too_early() -> None:
    found = SglangGenerator().define(EngineRequest(variant="sglang", model="a/b", served_name="m"))
    assert found.probe.path == "/health"
    assert "--api-key" not in found.command
