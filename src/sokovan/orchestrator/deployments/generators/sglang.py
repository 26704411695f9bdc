"""SGLang, by `sglang.launch_server`."""

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


class SglangGenerator(DefinitionGenerator):
    """Serves one model with SGLang.

    The probe is `/health`: `/v1/models` answers before the model is warm.
    """

    name = "sglang"
    reserved = ("--host", "--port", "--served-model-name", "--api-key", "--model-path", "--model")

    def define(self, request: EngineRequest) -> EngineDefinition:
        """The command of the server; SGLang takes its key as an argument only."""
        self.checked(request)
        command = with_arguments(
            request,
            *("python", "-m", "sglang.launch_server", "--model-path", request.model),
            *("--host", LOOPBACK, "--port", request.port, "--served-model-name", request.served_name),
            *("--tp", parallel(request), "--enable-metrics"),
            *(("--api-key", request.secret) if request.secret else ()),
        )
        return EngineDefinition(
            command=command,
            environment=variables(request),
            probe=probe_of(request, "/health"),
            smoke_path=CHAT,
            metrics_path=METRICS,
            event_usage="usage",
            upstream_model=request.served_name,
            concurrency_max=request.concurrency_max or 256,
        )
