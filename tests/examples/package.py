"""The example package as its pyproject.toml declares it, without installing it."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

from sokovan.entrypoints.plugins import registry_of
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.registry import PluginRegistry
from sokovan.simulator.scenario import Scenario, read_scenarios

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "sokovan-example-plugins"
HOWTO = ROOT / "docs" / "howto" / "write-a-plugin.md"
FILES = sorted((PACKAGE / "scenarios").glob("*.yaml"))


def declared() -> list[EntryPoint]:
    """What the package offers."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        EntryPoint(name=name, value=value, group=group)
        for group, offered in project["entry-points"].items()
        for name, value in offered.items()
    ]


@contextmanager
def importable() -> Iterator[None]:
    """The package can be imported from its source folder."""
    source = str(PACKAGE / "src")
    sys.path.insert(0, source)
    try:
        yield
    finally:
        sys.path.remove(source)


def example_registry() -> PluginRegistry:
    """The built-in plugins and those of the package."""
    with importable():
        return registry_of(declared())


def scenarios() -> list[Scenario]:
    """Every scenario that comes with the package."""
    return [scenario for file in FILES for scenario in read_scenarios(file.read_text(encoding="utf-8"), file.name)]


def subject(scenario: Scenario) -> str:
    """What a scenario shows: an extension point, or a kind of plugin; the word before the colon."""
    return scenario.name.partition(":")[0]


def without(registry: PluginRegistry, point: str) -> PluginRegistry:
    """The same plugins, none of which overrides the point any more."""
    plain = getattr(SchedulingPlugin, point)
    plugins: dict[str, Callable[[], SchedulingPlugin]] = {
        name: type("Less", (_class(made),), {point: plain}) for name, made in registry.plugins.items()
    }
    return replace(registry, plugins=plugins)


def overriding(registry: PluginRegistry, point: str) -> list[str]:
    """The plugins that override a point."""
    plain = getattr(SchedulingPlugin, point)
    return [name for name, made in registry.plugins.items() if getattr(_class(made), point) is not plain]


def _class(made: object) -> type:
    assert isinstance(made, type)
    return made
