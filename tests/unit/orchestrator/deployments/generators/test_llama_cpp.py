"""The definition of llama.cpp."""

from __future__ import annotations

from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.llama_cpp import LlamaCppGenerator

KEY = "key"


def test_a_file_is_served_with_as_many_slots_as_the_proxy_sends_requests() -> None:
    asked = EngineRequest(
        variant="llama-cpp", model="/m/a.gguf", served_name="m", mounts=("/m",), secret=KEY, concurrency_max=8
    )
    found = LlamaCppGenerator().define(asked)
    assert found.command == (
        *("llama-server", "-m", "/m/a.gguf", "--host", "127.0.0.1", "--port", "{port}"),
        *("--alias", "m", "--metrics", "--parallel", "8"),
    )
    assert found.environment == {"HF_HUB_OFFLINE": "1", "LLAMA_API_KEY": KEY}
    assert found.event_usage == "timings"
    assert (found.concurrency_max, found.upstream_model) == (8, "m")


def test_a_model_of_a_hub_is_downloaded_by_the_engine() -> None:
    found = LlamaCppGenerator().define(EngineRequest(variant="llama-cpp", model="a/b-GGUF:Q4", served_name="m"))
    assert found.command[:3] == ("llama-server", "-hf", "a/b-GGUF:Q4")
