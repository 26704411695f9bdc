"""A program of the user's own, by its command."""

from __future__ import annotations

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest, Probe, RoutingPolicy
from sokovan.orchestrator.deployments.generators.base import DefinitionGenerator, substituted, variables


class CustomGenerator(DefinitionGenerator):
    """Serves with any program.

    `{port}`, `{model}` and `{name}` in its command are replaced. The variable
    SOKOVAN_PORT_SERVE has the port too. Without a probe a TCP connection is the check.
    """

    name = "custom"
    needs_model = False

    def define(self, request: EngineRequest) -> EngineDefinition:
        """The user's command; the key that it may check is in ENGINE_API_KEY."""
        if not request.command:
            problem = "the engine custom needs a command"
            hint = "give it after --, for example: -- python server.py --port {port}"
            raise InvalidSpec(what=request.what, field="command", value=(), problem=problem, hint=hint)
        values = {"port": request.port, "model": request.model, "name": request.served_name}
        words = (*request.command, *request.arguments)
        return EngineDefinition(
            command=tuple(substituted(word, values) for word in words),
            environment=variables(request, ENGINE_API_KEY=request.secret),
            probe=request.probe or Probe(),
            upstream_model=request.served_name,
            concurrency_max=request.concurrency_max or 64,
            policy=RoutingPolicy.LEAST_LOAD,
            checks_secret=False,
        )
