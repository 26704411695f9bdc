"""The toy engine, which is part of the package and needs no model."""

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

# A word of the `sokovan` program, which is on the PATH of every kernel.
TOY_ENGINE = "__toy-engine"
# It computes nothing: several replicas fit on any laptop, where one of the usual size may take half of it.
SMALL = {"cpu": "0.25", "mem": "256Mi"}


class ToyGenerator(DefinitionGenerator):
    """Serves invented answers, to try out deployments without a model."""

    name = "toy"
    reserved = ("--host", "--port", "--model")
    needs_model = False

    def define(self, request: EngineRequest) -> EngineDefinition:
        """The command of the toy engine; the key is a variable."""
        self.checked(request)
        command = with_arguments(
            request,
            *("sokovan", TOY_ENGINE, "--host", LOOPBACK, "--port", request.port, "--model", request.served_name),
        )
        return EngineDefinition(
            command=command,
            environment=variables(request, TOY_API_KEY=request.secret),
            probe=probe_of(request, "/health"),
            smoke_path=CHAT,
            metrics_path=METRICS,
            event_usage="usage",
            upstream_model=request.served_name,
            resources=SMALL,
            concurrency_max=request.concurrency_max or 64,
        )
