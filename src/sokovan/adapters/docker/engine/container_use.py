"""Use of a container, from the statistics of its engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sokovan.adapters.docker.engine.client import EngineClient, path_of
from sokovan.ports.runtime import KernelUse

_ONCE = {"stream": "false", "one-shot": "true"}
# File contents that the system can drop, by version of control groups.
_DROPPABLE = ("inactive_file", "total_inactive_file")


async def container_use(engine: EngineClient, container: str, *, now_ms: int, processes: int | None) -> KernelUse:
    """Measure a container; `processes` come from the caller, as engines count threads.

    Raises EngineUnavailable, EngineRefusal.
    """
    stats = await engine.call("GET", path_of("containers", container, "stats"), query=_ONCE)
    return use_in(stats if isinstance(stats, dict) else {}, now_ms=now_ms, processes=processes)


def use_in(stats: Mapping[str, Any], *, now_ms: int, processes: int | None) -> KernelUse:
    """The figures of an engine's statistics; what is missing or no number is None."""
    used_ns = _number(stats, "cpu_stats", "cpu_usage", "total_usage")
    held = _number(stats, "memory_stats", "usage")
    droppable = next((one for key in _DROPPABLE if (one := _number(stats, "memory_stats", "stats", key))), 0)
    return KernelUse(
        now_ms,
        None if used_ns is None else used_ns // 1_000_000,
        None if held is None else max(0, held - droppable),
        processes,
    )


def _number(stats: Mapping[str, Any], *path: str) -> int | None:
    found: Any = stats
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, int) and found >= 0 else None
