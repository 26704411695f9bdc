"""Modular MAX, by `max serve`."""

from __future__ import annotations

from sokovan.domain.serving.engine import LOOPBACK, EngineDefinition, EngineRequest
from sokovan.orchestrator.deployments.generators.base import (
    CHAT,
    DefinitionGenerator,
    probe_of,
    variables,
    with_arguments,
)


class MaxGenerator(DefinitionGenerator):
    """Serves one model with MAX, which calls it by its own name and checks no key."""

    name = "max"
    reserved = ("--model", "--model-path", "--devices", "--port")

    def define(self, request: EngineRequest) -> EngineDefinition:
        """The command `max serve`; host and port are variables."""
        self.checked(request)
        devices = f"gpu:{','.join(map(str, range(request.accelerators)))}" if request.accelerators else "cpu"
        command = with_arguments(request, "max", "serve", "--model", request.model, "--devices", devices)
        return EngineDefinition(
            command=command,
            environment=variables(request, MAX_SERVE_HOST=LOOPBACK, MAX_SERVE_PORT=request.port),
            probe=probe_of(request, "/v1/health"),
            smoke_path=CHAT,
            upstream_model=request.model,
            concurrency_max=request.concurrency_max or 256,
            checks_secret=False,
        )
