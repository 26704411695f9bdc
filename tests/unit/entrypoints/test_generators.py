"""Installed definition generators: found by entry point, broken ones on use."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from sokovan.domain.errors import SokovanError
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest, Probe
from sokovan.entrypoints.generators import GROUP, installed_generators
from sokovan.entrypoints.plugins import UnloadablePlugin
from sokovan.orchestrator.deployments.generators.base import DefinitionGenerator
from sokovan.orchestrator.deployments.generators.toy import ToyGenerator
from sokovan.scheduling.registry import DuplicatePlugin

HERE = "tests.unit.entrypoints.test_generators"


class Abacus(DefinitionGenerator):
    name = "abacus"

    def define(self, request: EngineRequest) -> EngineDefinition:
        return EngineDefinition(
            command=("abacus", request.port),
            environment={},
            probe=Probe(),
            upstream_model=request.served_name,
            concurrency_max=1,
        )


def offered(name: str, value: str = f"{HERE}:Abacus") -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def asked(variant: str) -> EngineRequest:
    return EngineRequest(variant=variant, served_name="m")


def test_an_installed_engine_is_used_by_its_name() -> None:
    assert installed_generators([offered("abacus")]).define(asked("abacus")).command == ("abacus", "{port}")


def test_a_built_in_engine_keeps_its_name() -> None:
    assert isinstance(installed_generators([offered("toy")]).require("toy"), ToyGenerator)


def test_the_built_in_engines_are_there_without_any_package() -> None:
    assert "vllm" in installed_generators().names


@pytest.mark.parametrize(
    ("points", "error"),
    [
        ([offered("abacus"), offered("abacus")], DuplicatePlugin),
        ([offered("abacus", "no.such.module:Thing")], UnloadablePlugin),
        ([offered("abacus", "builtins:dict")], UnloadablePlugin),
    ],
)
def test_a_broken_package_fails_only_where_its_engine_is_named(
    points: list[EntryPoint], error: type[SokovanError]
) -> None:
    registry = installed_generators(points)
    assert registry.define(asked("toy")).command
    with pytest.raises(error):
        registry.define(asked("abacus"))
