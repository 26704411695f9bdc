"""Queues: shares of the cluster, flat or as a tree in which only leaves run work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.checks import require_int, require_kind, require_limits, require_slots
from sokovan.domain.errors import InvalidQueues, quoted
from sokovan.domain.ids import QueueName, checked_name
from sokovan.domain.slots import NO_LIMITS, NO_SLOTS, ResourceSlot, SlotLimits, total

# The parent of every queue without one. It need not be listed; if it is, it is its own parent.
ROOT_QUEUE = QueueName("root")
WEIGHT_MAX = 1_000_000
SECONDS_MAX = 366 * 24 * 3600


class QueueState(StrEnum):
    """Whether a queue accepts new sessions."""

    OPEN = auto()
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class Queue:
    """A share of the cluster.

    `weight` divides capacity in proportion; `deserved` is the configured share,
    `guarantee` is reserved for the queue, `capability` is the upper bound. A slot that
    `deserved` or `capability` does not name is not limited by it. `reclaimable` says whether
    other queues may reclaim what it uses beyond its deserved share. The minimum of its sessions
    is not evicted before it ran for `min_runtime_s`; None takes the value of the queue above.
    What it is guaranteed and does not use is lent if it comes back within `return_s`.
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
    min_runtime_s: int | None = None
    return_s: int | None = None

    def __post_init__(self) -> None:
        checked_name(self.name, what="queue")
        checked_name(self.parent, what="queue")
        what = f"queue {self.name}"
        require_int(self.weight, what=what, field="weight", least=1, most=WEIGHT_MAX)
        require_int(self.priority, what=what, field="priority")
        require_kind(self.state, QueueState, what=what, field="state")
        require_kind(self.reclaimable, bool, what=what, field="reclaimable")
        require_limits(self.capability, what=what, field="capability")
        require_limits(self.deserved, what=what, field="deserved")
        require_slots(self.guarantee, what=what, field="guarantee")
        for field in ("min_runtime_s", "return_s"):
            if getattr(self, field) is not None:
                require_int(getattr(self, field), what=what, field=field, least=0, most=SECONDS_MAX)
        self._check_parent()
        self._check_shares()

    def _check_parent(self) -> None:
        if self.name == ROOT_QUEUE and self.parent != ROOT_QUEUE:
            raise InvalidQueues(queue=self.name, problem=f"is above all and cannot be under {quoted(self.parent)}")
        if self.name == self.parent != ROOT_QUEUE:
            raise InvalidQueues(queue=self.name, problem="is its own parent")

    def _check_shares(self) -> None:
        for slot, amount in self.guarantee.items():
            if amount > self.capability[slot]:
                raise InvalidQueues(
                    queue=self.name,
                    problem=f"guarantees {amount} {slot} but may only use {self.capability[slot]}",
                )
            if amount > self.deserved[slot]:
                raise InvalidQueues(
                    queue=self.name,
                    problem=f"guarantees {amount} {slot} but deserves only {self.deserved[slot]}",
                )
        for slot, amount in self.deserved.items():
            if amount > self.capability[slot]:
                raise InvalidQueues(
                    queue=self.name,
                    problem=f"deserves {amount} {slot} but may only use {self.capability[slot]}",
                )


class QueueTree:
    """Queues under one root: every parent exists and there are no cycles."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        self._queues: dict[str, Queue] = {}
        for queue in _each(queues):
            if queue.name in self._queues:
                raise InvalidQueues(queue=queue.name, problem="is given twice")
            self._queues[queue.name] = queue
        for queue in self._queues.values():
            if queue.parent != ROOT_QUEUE and queue.parent not in self._queues:
                raise InvalidQueues(
                    queue=queue.name, problem=f"has a parent {quoted(queue.parent)} that does not exist"
                )
        self._refuse_cycles()
        self._parents = {queue.parent for queue in self._queues.values() if queue.name != ROOT_QUEUE}

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

    def require_shares_of(self, name: str) -> None:
        """Require that a queue and its siblings share what the queue above has.

        A guarantee is kept only if it is guaranteed above as well: those of the queues below
        one add up to at most its own. Deserved shares add up to at most its deserved share,
        of the slots that it names. The root has the whole cluster. Raises InvalidQueues.
        """
        queue = self._queues[name]
        for parent in (self._queues.get(queue.parent), queue):
            if parent is None or parent.name == ROOT_QUEUE:
                continue
            below = [one for one in self._queues.values() if one.parent == parent.name]
            for slot, amount in total(one.guarantee for one in below).items():
                if amount > parent.guarantee[slot]:
                    raise _shared_out(parent, f"guarantees {amount} {slot} to", parent.guarantee[slot])
            for slot, most in parent.deserved.items():
                amount = sum(one.deserved[slot] for one in below if slot in one.deserved)
                if amount > most:
                    raise _shared_out(parent, f"has {amount} {slot} deserved by", most)

    def _refuse_cycles(self) -> None:
        settled: set[str] = {ROOT_QUEUE}
        for name in self._queues:
            path: list[str] = []
            seen: set[str] = set()
            above: str = name
            while above not in settled and above not in seen:
                path.append(above)
                seen.add(above)
                above = self._queues[above].parent
            if above in seen:
                circle = " in ".join([*path[path.index(above) :], above])
                raise InvalidQueues(queue=above, problem=f"is under itself: {quoted(circle)}")
            settled |= seen


def _shared_out(parent: Queue, what: str, own: int) -> InvalidQueues:
    return InvalidQueues(
        queue=parent.name,
        problem=f"{what} the queues below it, but has {own} itself",
        hint="raise the share of the upper queue first, or lower those below it",
    )


def _each(queues: Iterable[Queue]) -> Iterator[Queue]:
    if not isinstance(queues, Iterable):
        raise InvalidQueues(queue=ROOT_QUEUE, problem=f"cannot hold {quoted(queues)}, which is no list of queues")
    for queue in queues:
        if not isinstance(queue, Queue):
            raise InvalidQueues(queue=ROOT_QUEUE, problem=f"cannot hold {quoted(queue)}, which is no queue")
        yield queue
