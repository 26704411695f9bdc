"""Text Generation Inference, whose development has ended, by its launcher."""

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


class TgiGenerator(DefinitionGenerator):
    """Serves one model with TGI, which calls every model by its own id."""

    name = "tgi"
    reserved = ("--hostname", "--port", "-p", "--model-id", "--api-key")

    def define(self, request: EngineRequest) -> EngineDefinition:
        """The command `text-generation-launcher`."""
        self.checked(request)
        command = with_arguments(
            request,
            *("text-generation-launcher", "--model-id", request.model),
            *("--hostname", LOOPBACK, "--port", request.port, "--num-shard", parallel(request)),
        )
        return EngineDefinition(
            command=command,
            environment=variables(request, API_KEY=request.secret),
            probe=probe_of(request, "/health"),
            smoke_path=CHAT,
            metrics_path=METRICS,
            upstream_model=request.model,
            concurrency_max=request.concurrency_max or 128,
        )
