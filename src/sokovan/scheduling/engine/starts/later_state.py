"""Later state: a workspace and queues as they will be at another time.

Takes the FutureIdle of a time, and what sessions that have ended by then used. Gives context
managers for a trial at that time; afterwards every number is as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from sokovan.scheduling.engine.usage.queue_shares import Row
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueUsage
from sokovan.scheduling.engine.workspace import UNBOUNDED, Ints, Workspace


@contextmanager
def room_later(workspace: Workspace, future: Ints) -> Iterator[None]:
    """Have this FutureIdle, and nothing idle."""
    saved, held, releases = workspace.room, workspace.held, workspace.releases
    workspace.room = np.full_like(saved, UNBOUNDED)
    workspace.room[:, : workspace.width] = -1
    workspace.room[:, workspace.width : 2 * workspace.width] = future
    workspace.held, workspace.releases = held + 1, True
    workspace.log.extend(range(len(workspace.ids)))
    try:
        yield
    finally:
        workspace.room, workspace.held, workspace.releases = saved, held, releases
        workspace.log.extend(range(len(workspace.ids)))


@contextmanager
def usage_later(queue_usage: QueueUsage, ended: Mapping[str, Row]) -> Iterator[None]:
    """Have less usage in queues and those above them."""
    saved: dict[str, tuple[QueueNode, Row, int, int]] = {}
    for name, row in ended.items():
        for node in queue_usage.node(name).limiting_queues:
            saved.setdefault(node.name, (node, list(node.allocated), node.share, node.unused_column))
            node.allocated[:] = [used - less for used, less in zip(node.allocated, row, strict=True)]
    try:
        yield
    finally:
        for node, allocated, share, unused_column in saved.values():
            node.allocated[:] = allocated
            node.share, node.unused_column = share, unused_column
