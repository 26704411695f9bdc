"""Finds the scheduling plugins that are installed, by entry point.

A package offers a plugin under one of the groups below. Offering is not using: a
plugin takes part only where a profile names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sokovan.domain.errors import InvalidInput
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.registry import BUILT_IN, DuplicatePlugin, PluginRegistry
from sokovan.scheduling.selectors.base import AgentSelector
from sokovan.scheduling.sequencers.base import WorkloadSequencer
from sokovan.scheduling.validators.base import ValidatorRule

# Group of entry points -> the kind of plugin, the class it must be, and the shelf it goes to.
GROUPS: dict[str, tuple[str, type, str]] = {
    "sokovan.validators": ("validator", ValidatorRule, "validators"),
    "sokovan.sequencers": ("sequencer", WorkloadSequencer, "sequencers"),
    "sokovan.selectors": ("selector", AgentSelector, "selectors"),
    "sokovan.predicates": ("plugin", SchedulingPlugin, "plugins"),
    "sokovan.plugins": ("plugin", SchedulingPlugin, "plugins"),
}


class UnloadablePlugin(InvalidInput):
    """An installed plugin could not be loaded, or is not what its group asks for."""

    code = "unloadable-plugin"
    hint = "mend or uninstall the package that offers the plugin"

    def __init__(self, *, group: str, name: str, problem: str) -> None:
        self.group, self.name, self.problem = group, name, problem
        super().__init__(f"plugin {name!r} of group {group}: {problem}")


def installed_plugins() -> PluginRegistry:
    """The built-in plugins and every installed one."""
    return registry_of(point for group in GROUPS for point in entry_points(group=group))


def registry_of(points: Iterable[EntryPoint]) -> PluginRegistry:
    """The built-in plugins and those of these entry points.

    One that cannot be loaded, or has the name of another, fails when a profile names
    it (UnloadablePlugin, DuplicatePlugin) and disturbs no other.
    """
    shelves: dict[str, dict[str, Callable[[], Any]]] = {
        "validators": dict(BUILT_IN.validators),
        "sequencers": dict(BUILT_IN.sequencers),
        "selectors": dict(BUILT_IN.selectors),
        "plugins": dict(BUILT_IN.plugins),
    }
    for point in points:
        if point.group not in GROUPS:
            continue  # other parts of the system have plugins of their own
        kind, wanted, shelf = GROUPS[point.group]
        if point.name in shelves[shelf]:
            # A built-in plugin keeps its name; of two others neither can be trusted to be the one that was meant.
            if point.name not in getattr(BUILT_IN, shelf):
                shelves[shelf][point.name] = _raising(DuplicatePlugin(kind=kind, name=point.name))
            continue
        shelves[shelf][point.name] = maker_of(point, wanted)
    return PluginRegistry(**shelves)


def maker_of(point: EntryPoint, wanted: type) -> Callable[..., Any]:
    """What makes the plugin; it raises UnloadablePlugin if the package is broken."""
    try:
        plugin = point.load()
    except Exception as error:  # noqa: BLE001  # a package that is broken must not take the others with it
        return _raising(_unloadable(point, f"{type(error).__name__}: {error}"))
    if not isinstance(plugin, type) or not issubclass(plugin, wanted):
        return _raising(_unloadable(point, f"is not a subclass of {wanted.__name__}"))
    if getattr(plugin, "name", "") != point.name:
        return _raising(
            _unloadable(point, f"calls itself {getattr(plugin, 'name', '')!r}; set its class attribute `name`")
        )
    found: Callable[..., Any] = plugin
    return found


def _unloadable(point: EntryPoint, problem: str) -> UnloadablePlugin:
    return UnloadablePlugin(group=point.group, name=point.name, problem=problem)


def _raising(error: InvalidInput) -> Callable[..., Any]:
    def make(*_: object) -> Any:
        raise error

    return make
