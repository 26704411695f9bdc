"""The definition of registry."""

from __future__ import annotations

import pytest

from sokovan.domain.serving.engine import EngineDefinition, EngineRequest, UnknownEngine
from sokovan.orchestrator.deployments.generators.base import DefinitionGenerator
from sokovan.orchestrator.deployments.generators.registry import BUILT_IN, GeneratorRegistry
from sokovan.scheduling.registry import UnusablePlugin


class Clumsy(DefinitionGenerator):
    name = "clumsy"

    def define(self, request: EngineRequest) -> EngineDefinition:
        raise KeyError(request.model)


class Empty(DefinitionGenerator):
    name = "empty"

    def define(self, request: EngineRequest) -> EngineDefinition:
        del request
        return None  # type: ignore[return-value]  # a plugin may answer anything


class Late(DefinitionGenerator):
    name = "late"

    def __init__(self) -> None:
        raise RuntimeError("not today")

    def define(self, request: EngineRequest) -> EngineDefinition:
        raise NotImplementedError


def test_the_engines_of_the_specification_are_built_in() -> None:
    assert set(GeneratorRegistry().names) == {
        *("vllm", "sglang", "tgi", "nim", "max", "llama-cpp", "transformers", "custom", "toy")
    }
    assert all(factory().name == name for name, factory in BUILT_IN.items())


def test_an_unknown_engine_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UnknownEngine, match="did you mean llama-cpp"):
        GeneratorRegistry().define(EngineRequest(variant="llamacpp", served_name="m"))


@pytest.mark.parametrize("broken", [Clumsy, Empty, Late])
def test_a_broken_generator_fails_with_its_name(broken: type[DefinitionGenerator]) -> None:
    registry = GeneratorRegistry({broken.name: broken})
    with pytest.raises(UnusablePlugin, match=broken.name):
        registry.define(EngineRequest(variant=broken.name, served_name="m"))
