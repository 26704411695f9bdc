"""Finds the allocator that the configuration names, built in or installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.adapters.sql.store import SqlStore
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.plugins import maker_of
from sokovan.ports.allocation import SchedulingAllocator
from sokovan.scheduling.registry import DuplicatePlugin, UnknownPlugin, UnusablePlugin

GROUP = "sokovan.allocators"


def allocator_named(
    name: str, store: SqlStore, *, installed: Iterable[EntryPoint] | None = None
) -> SchedulingAllocator:
    """The allocator of this name, working on `store`.

    Raises UnknownPlugin, DuplicatePlugin, UnloadablePlugin, UnusablePlugin. A broken
    package matters only to those who name its allocator.
    """
    points = [
        point for point in (entry_points(group=GROUP) if installed is None else installed) if point.group == GROUP
    ]
    makers: dict[str, Callable[..., Any]] = {RepositoryAllocator.name: RepositoryAllocator}
    for point in points:
        if point.name == name and point.name in makers and point.name != RepositoryAllocator.name:
            raise DuplicatePlugin(kind="allocator", name=name)
        makers.setdefault(point.name, maker_of(point, SchedulingAllocator))
    if name not in makers:
        raise UnknownPlugin(kind="allocator", name=name, known=makers)
    try:
        made = makers[name](store)
    except SokovanError:
        raise
    except Exception as error:
        raise UnusablePlugin(kind="allocator", name=name, error=error) from error
    if not isinstance(made, SchedulingAllocator):
        raise UnusablePlugin(kind="allocator", name=name, error=TypeError("it makes something else"))
    return made
