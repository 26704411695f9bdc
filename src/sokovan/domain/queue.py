"""Queues: shares of the cluster, flat or as a tree in which only leaves run work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.checks import require_int
from sokovan.domain.errors import InvalidQueues, quoted
from sokovan.domain.ids import QueueName, checked_name
from sokovan.domain.slots import NO_LIMITS, NO_SLOTS, ResourceSlot, SlotLimits

# Every queue without a parent stands under this one; it may be named as a parent, but need not be listed.
ROOT_QUEUE = QueueName("root")
WEIGHT_MAX = 1_000_000


class QueueState(StrEnum):
    """Whether a queue takes new work."""

    OPEN = auto()
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class Queue:
    """A share of the cluster.

    `weight` divides by proportion; `deserved` is the configured share, `guarantee`
    is kept free for the queue, `capability` is never passed. A slot that
    `deserved` or `capability` does not name is not limited by it.
    """

    name: QueueName
    weight: int = 1
    priority: int = 0
    state: QueueState = QueueState.OPEN
    parent: QueueName = ROOT_QUEUE
    reclaimable: bool = True
    capability: SlotLimits = NO_LIMITS
    deserved: SlotLimits = NO_LIMITS
    guarantee: ResourceSlot = NO_SLOTS

    def __post_init__(self) -> None:
        checked_name(self.name, what="queue")
        checked_name(self.parent, what="queue")
        what = f"queue {self.name}"
        require_int(self.weight, what=what, field="weight", least=1, most=WEIGHT_MAX)
        require_int(self.priority, what=what, field="priority")
        if self.parent == self.name:
            raise InvalidQueues(queue=self.name, problem="is its own parent")
        for slot, amount in self.guarantee.items():
            if amount > self.capability[slot]:
                raise InvalidQueues(
                    queue=self.name,
                    problem=f"guarantees {amount} {slot} but may only use {self.capability[slot]}",
                )
        for slot, amount in self.deserved.items():
            if amount > self.capability[slot]:
                raise InvalidQueues(
                    queue=self.name,
                    problem=f"deserves {amount} {slot} but may only use {self.capability[slot]}",
                )


class QueueTree:
    """Queues under one root: every parent exists, and no queue is above itself."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        self._queues: dict[str, Queue] = {}
        for queue in queues:
            if queue.name in self._queues:
                raise InvalidQueues(queue=queue.name, problem="is given twice")
            self._queues[queue.name] = queue
        for queue in self._queues.values():
            if queue.parent != ROOT_QUEUE and queue.parent not in self._queues:
                raise InvalidQueues(queue=queue.name, problem=f"has a parent {quoted(queue.parent)} that is not there")
            self._refuse_cycle(queue)
        self._parents = {queue.parent for queue in self._queues.values()}

    def __iter__(self) -> Iterator[Queue]:
        return iter(self._queues.values())

    def __contains__(self, name: object) -> bool:
        return name in self._queues

    def get(self, name: str) -> Queue | None:
        """The queue of this name, if there is one."""
        return self._queues.get(name)

    def is_leaf(self, name: str) -> bool:
        """Whether no queue names this one as its parent."""
        return name not in self._parents

    def ancestors(self, name: str) -> Iterator[Queue]:
        """The queues above `name`, nearest first; a root that is listed comes last."""
        queue = self._queues.get(name)
        while queue is not None and queue.name != ROOT_QUEUE:
            queue = self._queues.get(queue.parent)
            if queue is not None:
                yield queue

    def _refuse_cycle(self, queue: Queue) -> None:
        path = [queue.name]
        above = self._queues.get(queue.parent)
        while above is not None and above.name != ROOT_QUEUE:
            if above.name in path:
                raise InvalidQueues(queue=queue.name, problem=f"is under itself: {' in '.join([*path, above.name])}")
            path.append(above.name)
            above = self._queues.get(above.parent)
