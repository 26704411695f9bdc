"""llama.cpp, by `llama-server`."""

from __future__ import annotations

from sokovan.domain.serving.engine import LOOPBACK, EngineDefinition, EngineRequest
from sokovan.orchestrator.deployments.generators.base import (
    CHAT,
    METRICS,
    DefinitionGenerator,
    probe_of,
    variables,
    with_arguments,
)


class LlamaCppGenerator(DefinitionGenerator):
    """Serves one GGUF file, or a model of a hub, with llama.cpp.

    The probe answers 503 while the model loads. Requests beyond `--parallel` would wait
    inside the engine, so the proxy sends no more than that.
    """

    name = "llama-cpp"
    reserved = (
        "--host",
        "--port",
        "-m",
        "--model",
        "-hf",
        "--hf-repo",
        "-a",
        "--alias",
        "--api-key",
        "--parallel",
        "-np",
    )

    def define(self, request: EngineRequest) -> EngineDefinition:
        """The command `llama-server`; the key is a variable."""
        self.checked(request)
        concurrency = request.concurrency_max or 4
        command = with_arguments(
            request,
            *("llama-server", "-m" if request.is_local else "-hf", request.model),
            *("--host", LOOPBACK, "--port", request.port, "--alias", request.served_name),
            *("--metrics", "--parallel", str(concurrency)),
        )
        return EngineDefinition(
            command=command,
            environment=variables(request, LLAMA_API_KEY=request.secret),
            probe=probe_of(request, "/health"),
            smoke_path=CHAT,
            metrics_path=METRICS,
            event_usage="timings",
            upstream_model=request.served_name,
            concurrency_max=concurrency,
        )
