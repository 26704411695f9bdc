"""Loads the configured allocator, built in or installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.adapters.sql.store import SqlStore
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.plugins import factory_of
from sokovan.ports.allocation import SchedulingAllocator
from sokovan.scheduling.registry import DuplicatePlugin, UnknownPlugin, UnusablePlugin

GROUP = "sokovan.allocators"


def allocator_named(
    name: str, store: SqlStore, *, installed: Iterable[EntryPoint] | None = None
) -> SchedulingAllocator:
    """Create the allocator of this name for `store`.

    Raises UnknownPlugin, DuplicatePlugin, UnloadablePlugin, UnusablePlugin. A broken
    package fails only if its allocator is configured.
    """
    factory = allocator_factory(name, installed=installed)
    try:
        allocator = factory(store)
    except SokovanError:
        raise
    except Exception as error:
        raise UnusablePlugin(kind="allocator", name=name, error=error) from error
    if not isinstance(allocator, SchedulingAllocator):
        raise UnusablePlugin(kind="allocator", name=name, error=TypeError("it does not create a SchedulingAllocator"))
    return allocator


def allocator_factory(name: str, *, installed: Iterable[EntryPoint] | None = None) -> Callable[..., Any]:
    """The class of the allocator of this name.

    Raises UnknownPlugin, DuplicatePlugin, UnloadablePlugin.
    """
    points = [
        point for point in (entry_points(group=GROUP) if installed is None else installed) if point.group == GROUP
    ]
    factories: dict[str, Callable[..., Any]] = {RepositoryAllocator.name: RepositoryAllocator}
    for point in points:
        if point.name == name and point.name in factories and point.name != RepositoryAllocator.name:
            raise DuplicatePlugin(kind="allocator", name=name)
        factories.setdefault(point.name, factory_of(point, SchedulingAllocator))
    if name not in factories:
        raise UnknownPlugin(kind="allocator", name=name, known=factories)
    found = factories[name]
    if not isinstance(found, type):
        found()  # raises UnloadablePlugin
    return found
