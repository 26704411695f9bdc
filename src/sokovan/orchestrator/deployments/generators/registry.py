"""GeneratorRegistry: all definition generators by the name of their engine.

The registry holds names and factories only. Installed generators are found by entry
point in `sokovan.entrypoints.generators`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sokovan.domain.errors import SokovanError
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest, UnknownEngine
from sokovan.orchestrator.deployments.generators.base import DefinitionGenerator
from sokovan.orchestrator.deployments.generators.custom import CustomGenerator
from sokovan.orchestrator.deployments.generators.llama_cpp import LlamaCppGenerator
from sokovan.orchestrator.deployments.generators.max import MaxGenerator
from sokovan.orchestrator.deployments.generators.nim import NimGenerator
from sokovan.orchestrator.deployments.generators.sglang import SglangGenerator
from sokovan.orchestrator.deployments.generators.tgi import TgiGenerator
from sokovan.orchestrator.deployments.generators.toy import ToyGenerator
from sokovan.orchestrator.deployments.generators.transformers import TransformersGenerator
from sokovan.orchestrator.deployments.generators.vllm import VllmGenerator
from sokovan.scheduling.registry import UnusablePlugin

Factories = Mapping[str, Callable[[], DefinitionGenerator]]

BUILT_IN: Factories = {
    generator.name: generator
    for generator in (
        VllmGenerator,
        SglangGenerator,
        TgiGenerator,
        NimGenerator,
        MaxGenerator,
        LlamaCppGenerator,
        TransformersGenerator,
        CustomGenerator,
        ToyGenerator,
    )
}


@dataclass(frozen=True, slots=True)
class GeneratorRegistry:
    """The engines that a deployment may name."""

    factories: Factories = field(default_factory=lambda: BUILT_IN)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all engines, sorted."""
        return tuple(sorted(self.factories))

    def require(self, variant: str) -> DefinitionGenerator:
        """The generator of an engine. Raises UnknownEngine, UnusablePlugin."""
        if variant not in self.factories:
            raise UnknownEngine(variant, self.names)
        try:
            return self.factories[variant]()
        except SokovanError:
            raise
        except Exception as error:
            raise UnusablePlugin(kind="generator", name=variant, error=error) from error

    def define(self, request: EngineRequest) -> EngineDefinition:
        """The definition of one replica.

        Raises UnknownEngine, InvalidSpec, UnusablePlugin.
        """
        generator = self.require(request.variant)
        try:
            definition: object = generator.define(request)
        except SokovanError:
            raise
        except Exception as error:
            raise UnusablePlugin(kind="generator", name=request.variant, error=error) from error
        if not isinstance(definition, EngineDefinition):
            problem = TypeError("it does not return an EngineDefinition")
            raise UnusablePlugin(kind="generator", name=request.variant, error=problem)
        return definition
