"""QueueColumns and ShareColumns: parts of the rules that do not change in a cycle.

Takes the VictimTable. QueueColumns gives, for an action and a queue, the rows that takers of
that queue may ask for; ShareColumns gives the rows whose queues use more than they deserve.
Neither changes while kernels are evicted; what does (who was touched, what a queue uses) is
asked again for each taker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from sokovan.domain.lifecycle.eviction import PREEMPT, RECLAIM
from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.usage.queue_usage import QueueNode
from sokovan.scheduling.engine.workspace import Flags, Ints

T = TypeVar("T")


class QueueColumns:
    """The rows that takers of one queue may ask for by one action.

    Shares, priorities and room aside.
    """

    def __init__(self, action: str, node: QueueNode, table: VictimTable) -> None:
        charged = np.array([one is node for one in table.queues], bool)[table.queue]
        # Kernels that run on what the taker's queue lends: they come back whatever its share is.
        self.recalled: Flags = charged & table.loaned[table.session]
        young = table.young(action)[table.session] & ~self.recalled
        # The sessions that may end.
        self.whole: Flags = np.ones(len(table.sessions), bool)
        self.whole[table.session[young]] = False
        same = np.array([one is node for one in table.homes], bool)[table.home]
        self.others: Flags = {PREEMPT: same, RECLAIM: ~same}.get(action, np.ones(len(same), bool)) | self.recalled
        # The rows among these that may go at all, and those of queues that give.
        self.free: Flags = self.others & table.preemptible
        reclaimable = np.array([one.queue.reclaimable for one in table.queues], bool)[table.queue]
        self.open: Flags = self.free & (reclaimable | self.recalled)
        self.recalls = bool(self.recalled.any())
        # Takers of queues that are equally far from each giving one, and recall nothing, order rows alike.
        steps = ",".join(str(distance(action, node, one)) for one in table.queues)
        self.order_key = (action, steps, node.name if self.recalls else "")
        # The minimum run time protects the minimum of a session, not its surplus.
        self.too_young: Flags = young & ((table.allowance <= 0) | table.broken)[table.session]
        self.protects_young = bool(self.too_young.any())

    @classmethod
    def of(cls, action: str, node: QueueNode, table: VictimTable) -> QueueColumns:
        """The columns of an action and a queue, made by the first taker."""
        return _kept(table, ("queue", action, node.name), lambda: cls(action, node, table))


class ShareColumns:
    """The deserved amounts of the queues that give, and the columns that decide."""

    def __init__(self, table: VictimTable) -> None:
        self._table, width = table, len(table.queue_usage.total)
        rows = [[deserved(node, column) for column in range(width)] for node in table.queues]
        self.deserved: Ints = np.array(rows, np.int64).reshape(len(rows), width)
        self._pair_queue: Ints = np.array([queue for queue, _ in table.pairs], np.int64)
        self._relevant: dict[tuple[bool, ...], Flags] = {}

    @classmethod
    def of(cls, table: VictimTable) -> ShareColumns:
        """The columns of a cycle, made by the first taker."""
        return _kept(table, ("shares",), lambda: cls(table))

    def used(self) -> Ints:
        """The amounts that each queue uses now, by column."""
        used = np.array([node.allocated for node in self._table.queues], np.int64)
        return used.reshape(self.deserved.shape)

    def relevant(self, asked: Sequence[int]) -> Flags:
        """The columns that decide, for each pair of queue and shape."""
        key = tuple(amount > 0 for amount in asked)
        if key not in self._relevant:
            table, found = self._table, np.zeros((len(self._table.pairs), len(key)), bool)
            for number, (queue, shape) in enumerate(table.pairs):
                found[number, list(relevant(table.queues[queue], table.shapes[shape], asked))] = True
            self._relevant[key] = found
        return self._relevant[key]

    def above(self, asked: Sequence[int], used: Ints) -> Flags:
        """The rows whose queue uses more of what is asked than it deserves."""
        over = (used > self.deserved)[self._pair_queue] & self.relevant(asked)
        return np.asarray(over.any(axis=1), bool)[self._table.pair]


def distance(action: str, taker: QueueNode, giver: QueueNode) -> int:
    """The steps in the queue tree from the taker's queue to another, for reclaim."""
    if action != RECLAIM:
        return 0
    mine, theirs = taker.path, giver.path
    shared = sum(1 for a, b in zip(reversed(mine), reversed(theirs), strict=False) if a is b)
    return len(mine) + len(theirs) - 2 * shared


def deserved(node: QueueNode, column: int) -> int:
    """The deserved amount; 0 of what a queue does not name."""
    return node.deserved[column] if node.deserves[column] else 0


def relevant(node: QueueNode, shape: Shape, asked: Sequence[int]) -> tuple[int, ...]:
    """The columns that decide whether a kernel of a queue may be reclaimed.

    Those that it releases and the taker asks for; if it uses columns that the queue
    deserves by name, only these.
    """
    used = [column for column, _ in shape.slot_pairs]
    named = [column for column in used if node.deserves[column]]
    return tuple(column for column in named or used if asked[column])


def _kept(table: VictimTable, key: tuple[str, ...], make: Callable[[], T]) -> T:
    if key not in table.kept:
        table.kept[key] = make()
    found: T = table.kept[key]
    return found
