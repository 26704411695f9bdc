"""`sokovan usage` and `sokovan queue shares`: what was used, and is used now."""

from __future__ import annotations

from sokovan.cli.commands.catalog.catalog_actions import list_all
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.formatting import NONE, amount, duration
from sokovan.cli.rendering import Column
from sokovan.wire.api.fleet import QueueShareView
from sokovan.wire.api.tenancy import UsageView


def _used(usage: UsageView) -> str:
    return ", ".join(f"{slot} {duration(used)}" for slot, used in sorted(usage.slots.items())) or NONE


COLUMNS: list[Column[UsageView]] = [
    Column("scaling_group", lambda usage: usage.scaling_group),
    Column("kind", lambda usage: usage.kind),
    Column("name", lambda usage: usage.name),
    Column("used", _used),
    Column("weighted", lambda usage: duration(usage.weighted)),
    Column("weight", lambda usage: str(usage.weight)),
    Column("share", lambda usage: duration(usage.share)),
]


SHARE_COLUMNS: list[Column[QueueShareView]] = [
    Column("queue", lambda share: share.queue),
    Column("slot", lambda share: share.slot),
    Column("in_use", lambda share: amount(share.slot, share.allocated)),
    Column("deserved", lambda share: NONE if share.deserved is None else amount(share.slot, share.deserved)),
    Column("guarantee", lambda share: amount(share.slot, share.guarantee)),
    Column("borrowed", lambda share: amount(share.slot, share.borrowed)),
    Column("waiting", lambda share: amount(share.slot, share.waiting)),
]


def usage(*, scaling_group: str | None = None, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show past usage of users, groups and queues.

    USED is the time for which one core, one GiB of memory or one device was held,
    and halves with the half-life of the scaling group. SHARE is what fair-share
    compares: the weighted sum of USED, divided by WEIGHT; the smallest goes first.

    For example:
      sokovan usage
      sokovan usage --scaling-group gpu --json

    Parameters
    ----------
    scaling_group
        Only this scaling group.
    """
    return list_all(output, COLUMNS, lambda client: client.usage.list(scaling_group=scaling_group))


def shares(
    queue: str | None = None, /, *, scaling_group: str | None = None, output: OutputOptions = TABLE_OUTPUT
) -> int:
    """Show what queues use, deserve and borrow now.

    BORROWED is what a queue uses beyond what it deserves, WAITING what its waiting
    sessions request.

    For example:
      sokovan queue shares
      sokovan queue shares research --scaling-group gpu --json

    Parameters
    ----------
    queue
        Only this queue.
    scaling_group
        In this scaling group; by default in the default one.
    """
    return list_all(
        output,
        SHARE_COLUMNS,
        lambda client: client.usage.shares(queue=queue, scaling_group=scaling_group).items,
        key="queue",
    )
