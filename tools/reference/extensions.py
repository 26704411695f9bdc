"""The extension points of the scheduler, and the groups by which packages offer plugins."""

from __future__ import annotations

import inspect

from sokovan.entrypoints.plugins import GROUPS
from sokovan.scheduling.extensions import POINTS, GangView, QueueView, SchedulingPlugin

INTRODUCTION = """\
# Extension points

A plugin subclasses `SchedulingPlugin` and overrides the points it cares for; every other point keeps the engine's own
behaviour. A profile names the plugins that take part; where several answer at one point, their answers are combined as
the table says. [How to write a plugin](../howto/write-a-plugin.md) has a tested example for each point.

| Point | In Volcano | Answers of several plugins | What it decides |
|---|---|---|---|
"""

SIGNATURES = """
## Signatures

A plugin answers, and changes nothing of what it is given.

| Method | Meaning |
|---|---|
"""

VIEWS = """
- `QueueView`: {queue}.
- `GangView`: {gang}.
- `SessionWorkload` and `KernelWorkload` are those of the snapshot.
- `AgentInfo` carries what is occupied at this moment of the cycle.
"""

ENTRY_POINTS = """
## Entry point groups

A package offers a plugin as an entry point of one of these groups. The name of the entry point is the name that a
profile uses; it cannot be one that is taken.

| Group | Offers | Must subclass |
|---|---|---|
"""


def page() -> str:
    """The page of extension points and entry point groups."""
    points = [f"| `{name}` | {p.volcano} | {p.combines} | {p.meaning} |\n" for name, p in POINTS.items()]
    methods = [f"| `{_signature(name)}` | {_meaning(name)} |\n" for name in POINTS]
    groups = [f"| `{group}` | {kind} | `{wanted.__name__}` |\n" for group, (kind, wanted, _) in GROUPS.items()]
    views = VIEWS.format(queue=_fields(QueueView), gang=_fields(GangView))
    parts = (INTRODUCTION, *points, SIGNATURES, *methods, views, ENTRY_POINTS, *groups)
    return "".join(parts)


def _signature(point: str) -> str:
    """A method as it is overridden; a bar would end the cell of a table."""
    signature = inspect.signature(getattr(SchedulingPlugin, point))
    shown = signature.replace(parameters=list(signature.parameters.values())[1:])
    return f"{point}{shown}".replace("'", "").replace("|", "\\|")


def _meaning(point: str) -> str:
    return (inspect.getdoc(getattr(SchedulingPlugin, point)) or "").partition("\n")[0].rstrip(".")


def _fields(view: type[QueueView | GangView]) -> str:
    return ", ".join(f"`{name}`" for name in view._fields)
