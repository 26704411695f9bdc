"""NVIDIA NIM, whose image has an entry point of its own."""

from __future__ import annotations

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest
from sokovan.orchestrator.deployments.generators.base import CHAT, DefinitionGenerator, probe_of, variables


class NimGenerator(DefinitionGenerator):
    """Starts a NIM image with its own model, unless one is given.

    NIM checks no key: only its address, which is that of the machine itself, protects it.
    """

    name = "nim"
    needs_model = False

    def define(self, request: EngineRequest) -> EngineDefinition:
        """Variables only; NGC_API_KEY and NIM_CACHE_PATH are the user's to set."""
        self.checked(request)
        if request.arguments:
            problem = "a NIM image takes no arguments"
            hint = "set variables of NIM instead"
            raise InvalidSpec(what=request.what, field="arguments", value=request.arguments, problem=problem, hint=hint)
        model = f"hf://{request.model}" if request.model and not request.is_local else request.model
        return EngineDefinition(
            command=(),
            environment=variables(
                request,
                NIM_SERVER_PORT=request.port,
                NIM_SERVED_MODEL_NAME=request.served_name,
                NIM_MODEL_PATH=model,
            ),
            probe=probe_of(request, "/v1/health/ready"),
            smoke_path=CHAT,
            metrics_path="/v1/metrics",
            upstream_model=request.served_name,
            concurrency_max=request.concurrency_max or 256,
            checks_secret=False,
        )
