"""Hugging Face Transformers, by `transformers serve`."""

from __future__ import annotations

from sokovan.domain.serving.engine import LOOPBACK, EngineDefinition, EngineRequest
from sokovan.orchestrator.deployments.generators.base import (
    CHAT,
    DefinitionGenerator,
    probe_of,
    variables,
    with_arguments,
)


class TransformersGenerator(DefinitionGenerator):
    """Serves one model with Transformers, which checks no key.

    It calls the model by its own name.
    """

    name = "transformers"
    reserved = ("--host", "--port")

    def define(self, request: EngineRequest) -> EngineDefinition:
        """The command `transformers serve`."""
        self.checked(request)
        command = with_arguments(
            request,
            *("transformers", "serve", request.model, "--host", LOOPBACK, "--port", request.port),
            "--continuous-batching",
        )
        return EngineDefinition(
            command=command,
            environment=variables(request),
            probe=probe_of(request, "/health"),
            smoke_path=CHAT,
            upstream_model=request.model,
            concurrency_max=request.concurrency_max or 16,
            checks_secret=False,
        )
