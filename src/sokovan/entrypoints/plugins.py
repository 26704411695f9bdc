"""Finds installed scheduling plugins by entry point.

A package registers a plugin under one of the groups below. A registered plugin is
used only if a profile names it.
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

# Group of entry points -> the kind of plugin, its base class, and its field of the registry.
GROUPS: dict[str, tuple[str, type, str]] = {
    "sokovan.validators": ("validator", ValidatorRule, "validators"),
    "sokovan.sequencers": ("sequencer", WorkloadSequencer, "sequencers"),
    "sokovan.selectors": ("selector", AgentSelector, "selectors"),
    "sokovan.predicates": ("plugin", SchedulingPlugin, "plugins"),
    "sokovan.plugins": ("plugin", SchedulingPlugin, "plugins"),
}


class UnloadablePlugin(InvalidInput):
    """An installed plugin could not be loaded, or has the wrong base class."""

    code = "unloadable-plugin"
    hint = "fix or uninstall the package that provides the plugin"

    def __init__(self, *, group: str, name: str, problem: str) -> None:
        self.group, self.name, self.problem = group, name, problem
        super().__init__(f"plugin {name!r} of group {group}: {problem}")


def installed_plugins() -> PluginRegistry:
    """The built-in plugins and all installed ones."""
    installed = entry_points()  # reads the metadata of every package, so once for all groups
    return registry_of(point for group in GROUPS for point in installed.select(group=group))


def registry_of(points: Iterable[EntryPoint]) -> PluginRegistry:
    """The built-in plugins and those of the entry points.

    A plugin that cannot be loaded, or has a duplicate name, raises UnloadablePlugin or
    DuplicatePlugin only when a profile names it.
    """
    registered: dict[str, dict[str, Callable[[], Any]]] = {
        "validators": dict(BUILT_IN.validators),
        "sequencers": dict(BUILT_IN.sequencers),
        "selectors": dict(BUILT_IN.selectors),
        "plugins": dict(BUILT_IN.plugins),
    }
    for point in points:
        if point.group not in GROUPS:
            continue  # belongs to another kind of plugin
        kind, base, field = GROUPS[point.group]
        if point.name in registered[field]:
            # A built-in plugin keeps its name; of two installed ones, the intended one is ambiguous.
            if point.name not in getattr(BUILT_IN, field):
                registered[field][point.name] = _raising(DuplicatePlugin(kind=kind, name=point.name))
            continue
        registered[field][point.name] = factory_of(point, base)
    return PluginRegistry(**registered)


def factory_of(point: EntryPoint, base: type) -> Callable[..., Any]:
    """A factory of the plugin, which raises UnloadablePlugin if the package is broken."""
    try:
        plugin = point.load()
    except Exception as error:  # noqa: BLE001  # a broken package must not affect the others
        return _raising(_unloadable(point, f"{type(error).__name__}: {error}"))
    if not isinstance(plugin, type) or not issubclass(plugin, base):
        return _raising(_unloadable(point, f"is not a subclass of {base.__name__}"))
    if getattr(plugin, "name", "") != point.name:
        return _raising(
            _unloadable(point, f"has the name {getattr(plugin, 'name', '')!r}; set its class attribute `name`")
        )
    found: Callable[..., Any] = plugin
    return found


def _unloadable(point: EntryPoint, problem: str) -> UnloadablePlugin:
    return UnloadablePlugin(group=point.group, name=point.name, problem=problem)


def _raising(error: InvalidInput) -> Callable[..., Any]:
    def make(*_: object) -> Any:
        raise error

    return make
