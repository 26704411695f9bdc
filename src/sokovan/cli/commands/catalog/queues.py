"""`sokovan queue`: queues, and how much each may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from sokovan.cli.commands.catalog.catalog import (
    amounts_text,
    changed,
    list_all,
    read_amounts,
    remove_named,
    show_named,
    tell_changed,
)
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    DEFAULT_SERVER,
    TABLE_OUTPUT,
    ActionOptions,
    OutputOptions,
    ServerOptions,
    Yes,
)
from sokovan.cli.formatting import or_none
from sokovan.cli.rendering import Column
from sokovan.wire.api.fleet import QueueBody

COLUMNS: list[Column[QueueBody]] = [
    Column("name", lambda queue: queue.name),
    Column("parent", lambda queue: or_none(queue.parent)),
    Column("weight", lambda queue: str(queue.weight)),
    Column("priority", lambda queue: str(queue.priority)),
    Column("open", lambda queue: "yes" if queue.open else "no"),
    Column("deserved", lambda queue: amounts_text(queue.deserved)),
    Column("guarantee", lambda queue: amounts_text(queue.guarantee)),
    Column("max", lambda queue: amounts_text(queue.capability)),
]


def ls(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """List queues.

    For example:
      sokovan queue ls
    """
    return list_all(shown, COLUMNS, lambda client: client.queues.list())


def show(name: str, /, *, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show one queue.

    For example:
      sokovan queue show research

    Parameters
    ----------
    name
        Its name.
    """
    return show_named(shown, COLUMNS, lambda client: client.queues.get(name))


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """What a queue should be; what is not said stays."""

    weight: Annotated[int | None, Parameter(help="Its part of what is shared by weight.")] = None
    priority: Annotated[int | None, Parameter(help="Higher goes first.")] = None
    parent: Annotated[str | None, Parameter(help="The queue above it.")] = None
    open: Annotated[bool | None, Parameter(negative="--closed", help="Whether it takes sessions.")] = None
    deserved: Annotated[tuple[str, ...], Parameter(negative=(), help="What it deserves: gpu=96. Repeatable.")] = ()
    guarantee: Annotated[tuple[str, ...], Parameter(negative=(), help="What is kept for it, even while idle.")] = ()
    max: Annotated[tuple[str, ...], Parameter(negative=(), help="What it may use at most.")] = ()

    def said(self) -> dict[str, Any]:
        """The fields of the wire that were said. Raises InvalidSetting."""
        return {
            "weight": self.weight,
            "priority": self.priority,
            "parent": self.parent,
            "open": self.open,
            "deserved": read_amounts(self.deserved, option="--deserved"),
            "guarantee": read_amounts(self.guarantee, option="--guarantee"),
            "capability": read_amounts(self.max, option="--max"),
        }


AS_IT_IS = QueueOptions()


def change(name: str, /, *, wish: QueueOptions = AS_IT_IS, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Make a queue, or change one.

    What is not said stays as it is.

    For example:
      sokovan queue set research --weight 3 --max gpu=256
      sokovan queue set research --closed

    Parameters
    ----------
    name
        Its name.
    """
    said = wish.said()
    with server.client() as client:
        body, is_new = changed(lambda: client.queues.get(name), lambda: QueueBody(name=name), said)
        kept = client.queues.put(body)
    return tell_changed(server, "queue", kept, is_new=is_new)


def remove(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Remove a queue.

    For example:
      sokovan queue rm research --yes

    Parameters
    ----------
    name
        Its name.
    """
    return remove_named(
        server,
        "queue",
        name,
        yes=yes,
        look=lambda client: client.queues.get(name),
        act=lambda client: client.queues.delete(name),
    )
