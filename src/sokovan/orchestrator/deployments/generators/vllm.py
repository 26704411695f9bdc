"""vLLM, by `vllm serve`."""

from __future__ import annotations

from sokovan.domain.serving.engine import LOOPBACK, EngineDefinition, EngineRequest
from sokovan.orchestrator.deployments.generators.base import (
    CHAT,
    METRICS,
    DefinitionGenerator,
    parallel,
    probe_of,
    variables,
    with_arguments,
)


class VllmGenerator(DefinitionGenerator):
    """Serves one model with vLLM; running requests complete within the drain time."""

    name = "vllm"
    reserved = ("--host", "--port", "--served-model-name", "--api-key", "--shutdown-timeout", "--uds")

    def define(self, request: EngineRequest) -> EngineDefinition:
        """The command `vllm serve`; the key is a variable, which no process list shows."""
        self.checked(request)
        command = with_arguments(
            request,
            *("vllm", "serve", request.model, "--host", LOOPBACK, "--port", request.port),
            *("--served-model-name", request.served_name, "--tensor-parallel-size", parallel(request)),
            *("--shutdown-timeout", str(request.drain_timeout_s)),
        )
        return EngineDefinition(
            command=command,
            environment=variables(request, VLLM_API_KEY=request.secret),
            probe=probe_of(request, "/health"),
            smoke_path=CHAT,
            metrics_path=METRICS,
            event_usage="usage",
            upstream_model=request.served_name,
            concurrency_max=request.concurrency_max or 256,
        )
