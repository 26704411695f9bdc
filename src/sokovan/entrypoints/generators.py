"""Finds installed definition generators by entry point.

A package registers a generator under the group `sokovan.generators`, by the name of its
engine. A broken package fails only when a deployment names its engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points

from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.plugins import factory_of
from sokovan.orchestrator.deployments.generators.base import DefinitionGenerator
from sokovan.orchestrator.deployments.generators.registry import BUILT_IN, GeneratorRegistry
from sokovan.scheduling.registry import DuplicatePlugin

GROUP = "sokovan.generators"


def installed_generators(points: Iterable[EntryPoint] | None = None) -> GeneratorRegistry:
    """The built-in generators and all installed ones.

    A built-in engine keeps its name; of two installed ones with one name, neither is usable.
    """
    found: dict[str, Callable[[], DefinitionGenerator]] = dict(BUILT_IN)
    for point in entry_points(group=GROUP) if points is None else points:
        if point.name in BUILT_IN or point.group != GROUP:
            continue
        if point.name in found:
            found[point.name] = _raising(DuplicatePlugin(kind="generator", name=point.name))
        else:
            found[point.name] = factory_of(point, DefinitionGenerator)
    return GeneratorRegistry(found)


def _raising(error: SokovanError) -> Callable[[], DefinitionGenerator]:
    def make() -> DefinitionGenerator:
        raise error

    return make
