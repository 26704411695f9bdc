"""The extension points of the scheduler, and the entry point groups for plugins."""

from __future__ import annotations

import inspect

from sokovan.entrypoints.plugins import GROUPS
from sokovan.scheduling.extensions import POINTS, EvictableKernel, GangView, QueueView, SchedulingPlugin

INTRODUCTION = """\
# Extension points

A plugin subclasses `SchedulingPlugin` and overrides some of its methods; every other point keeps the engine's own
behaviour. A profile names the plugins to use; if several implement one point, their results are combined as the table
says. [How to write a plugin](../howto/write-a-plugin.md) has a tested example for each point.

| Point | In Volcano | Combination of results | Decides |
|---|---|---|---|
"""

SIGNATURES = """
## Signatures

A plugin must not change its arguments.

| Method | Meaning |
|---|---|
"""

VIEWS = """
- `QueueView`: {queue}.
- `GangView`: {gang}.
- `EvictableKernel`: {victim}.
- `SessionWorkload` and `KernelWorkload` are those of the snapshot.
- `AgentInfo` has the slots that are occupied at this point of the cycle.
"""

ENTRY_POINTS = """
## Entry point groups

A package declares a plugin as an entry point in one of these groups. The name of the entry point is the name that a
profile uses; it must be unique.

| Group | Kind | Base class |
|---|---|---|
"""


def page() -> str:
    """The page of extension points and entry point groups."""
    points = [f"| `{name}` | {p.volcano} | {p.combines} | {p.meaning} |\n" for name, p in POINTS.items()]
    methods = [f"| `{_signature(name)}` | {_meaning(name)} |\n" for name in POINTS]
    groups = [f"| `{group}` | {kind} | `{wanted.__name__}` |\n" for group, (kind, wanted, _) in GROUPS.items()]
    views = VIEWS.format(queue=_fields(QueueView), gang=_fields(GangView), victim=_fields(EvictableKernel))
    parts = (INTRODUCTION, *points, SIGNATURES, *methods, views, ENTRY_POINTS, *groups)
    return "".join(parts)


def _signature(point: str) -> str:
    """The signature without self; `|` is escaped for the table."""
    signature = inspect.signature(getattr(SchedulingPlugin, point))
    shown = signature.replace(parameters=list(signature.parameters.values())[1:])
    return f"{point}{shown}".replace("'", "").replace("|", "\\|")


def _meaning(point: str) -> str:
    return (inspect.getdoc(getattr(SchedulingPlugin, point)) or "").partition("\n")[0].rstrip(".")


def _fields(view: type[QueueView | GangView | EvictableKernel]) -> str:
    return ", ".join(f"`{name}`" for name in view._fields)
