"""What each queue may use, what it uses, and which one goes next.

Proportion divides the cluster by weight (see `shares`). Capacity takes what is
configured: a queue may borrow beyond what it deserves, up to its capability, less
what its siblings are guaranteed. In a hierarchy only leaves run sessions, every
ancestor's limit holds, and an unset limit is the parent's. A queue that has no
valid place in the tree runs nothing, and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState
from sokovan.domain.ids import QueueName
from sokovan.domain.slot_notation import format_amount
from sokovan.domain.slots import UNLIMITED
from sokovan.scheduling.engine.usage.queue_shares import Row, ShareClaim, divided
from sokovan.scheduling.engine.workspace import ONE
from sokovan.scheduling.extensions import QueueView
from sokovan.scheduling.trace import Code

PROPORTION = "proportion"
CAPACITY = "capacity"
POLICIES = (PROPORTION, CAPACITY)

Pairs = Sequence[tuple[int, int]]


class QueueNode:
    """One queue in the running cycle."""

    def __init__(self, queue: Queue, width: int) -> None:
        self.queue, self.name = queue, str(queue.name)
        self.parent: QueueNode | None = None
        self.children: list[QueueNode] = []
        self.allocated: Row = [0] * width
        self.request: Row = [0] * width
        self.guarantee: Row = [0] * width
        self.deserved: Row = [0] * width
        self.deserves = [False] * width  # the columns that `deserved` speaks of
        self.limit: Row = [UNLIMITED] * width
        self.share = 0
        self.slack = 0
        self.unfit: tuple[Code, str] | None = None
        self.line: tuple[QueueNode, ...] = ()
        self.way: tuple[QueueNode, ...] = ()
        self.heap: list[tuple[tuple[object, ...], str, QueueNode]] = []

    def path(self) -> tuple[QueueNode, ...]:
        """The queue and those above it, without the root."""
        if not self.way:
            nodes, node = [], self
            while node.parent is not None:
                nodes.append(node)
                node = node.parent
            self.way = tuple(nodes)
        return self.way

    def chain(self) -> tuple[QueueNode, ...]:
        """All whose limits hold for it: itself, those above, a root with limits."""
        if not self.line:
            path = self.path()
            root = path[-1].parent if path else None
            self.line = (*path, root) if root is not None and root.queue.capability else path
        return self.line


class QueueRefusal(NamedTuple):
    """Why a queue lets no more in: which queue, which slot, and the numbers.

    `held` is the part of `used` that a trial of the same session holds.
    """

    code: Code
    queue: str
    slot: str
    asked: int
    used: int
    limit: int
    held: int = 0

    @property
    def wanted(self) -> int:
        """What the session asks for in all: nothing that is only tried is in use."""
        return self.asked + self.held

    def sentence(self) -> str:
        """The refusal in words."""
        asked, used, limit = (format_amount(self.slot, n) for n in (self.wanted, self.used - self.held, self.limit))
        bound = "deserves" if self.code is Code.QUEUE_OVER_SHARE else "may use"
        return f"queue {self.queue} uses {used} {self.slot} and {bound} {limit}; {asked} more would pass it"


class QueueUsage:
    """All queues of a cycle: their limits, what they use, and their order."""

    def __init__(
        self, queues: Iterable[Queue], *, policy: str, hierarchy: bool, total: Row, slots: Sequence[str]
    ) -> None:
        self.policy, self.hierarchy = policy, hierarchy
        self._total, self._slots = total, tuple(slots)
        self.order_key: Callable[[QueueNode], tuple[int, ...]] | None = None
        listed = {str(queue.name): queue for queue in queues}
        self._root = QueueNode(listed.pop(ROOT_QUEUE, Queue(name=ROOT_QUEUE)), len(total))
        # In order of their names, so that nothing depends on the order in which they were listed.
        self.nodes = {name: QueueNode(listed[name], len(total)) for name in sorted(listed)}
        for node in list(self.nodes.values()):
            self._attach(node)
        # Set while queues may pass what they deserve by one session, where room would stand idle otherwise.
        self.lends = False

    def node(self, name: str) -> QueueNode:
        """The queue of this name; one that is not listed has weight 1 and no limits."""
        if name not in self.nodes:
            self.nodes[name] = QueueNode(Queue(name=QueueName(name)), len(self._total))
            self._attach(self.nodes[name])
        return self.nodes[name]

    def ask(self, name: str, pairs: Pairs, times: int = 1) -> None:
        """Count what a queue would like to have, running or waiting."""
        for node in self.node(name).chain():
            for column, amount in pairs:
                node.request[column] += amount * times

    def use(self, name: str, pairs: Pairs, times: int = 1) -> None:
        """Count what a queue uses when the cycle begins."""
        for node in self.node(name).chain():
            for column, amount in pairs:
                node.allocated[column] += amount * times

    def settle(self) -> None:
        """Work out limits, deserved amounts and shares, once all is counted."""
        bounds = [min(n, self._root.queue.capability[s]) for n, s in zip(self._total, self._slots, strict=True)]
        self._root.limit, self._root.deserved = bounds, list(bounds)
        for node in (self._root, *self.nodes.values()):
            node.children.sort(key=lambda child: child.name)
        stack = [self._root]
        while stack:
            node = stack.pop()
            self._limit_children(node)
            if self.policy == PROPORTION:
                self._divide_among_children(node)
            stack.extend(node.children)
        for node in self.nodes.values():
            node.share = self._share(node)

    def charge(self, node: QueueNode, pairs: Pairs, times: int = 1) -> None:
        """Count what a queue uses from now on."""
        for above in node.chain():
            allocated, deserves, deserved, share = above.allocated, above.deserves, above.deserved, above.share
            for column, amount in pairs:
                used = allocated[column] = allocated[column] + amount * times
                if deserves[column]:
                    part = used * ONE // deserved[column] if deserved[column] else ONE
                    share = max(share, part)
            above.share = share

    def unfit(self, node: QueueNode) -> tuple[Code, str] | None:
        """Why a queue runs no session at all, if so."""
        if node.unfit is not None:
            return node.unfit
        if self.hierarchy and node.name == ROOT_QUEUE:
            return Code.QUEUE_NOT_LEAF, "the root is above all queues; only leaves run sessions"
        if self.hierarchy and node.children:
            below = len(node.children)
            return Code.QUEUE_NOT_LEAF, f"queue {node.name} has {below} queues below it; only leaves run sessions"
        above = (*node.path(), self._root) if self.hierarchy else (node,)
        closed = next((n for n in above if n.queue.state is QueueState.CLOSED), None)
        return None if closed is None else (Code.QUEUE_CLOSED, f"queue {closed.name} is closed")

    def overused(self, node: QueueNode) -> bool:
        """Whether a queue, or one above it, has all that it deserves by weight."""
        if self.policy != PROPORTION:
            return False
        for above in node.chain():
            allocated, deserved = above.allocated, above.deserved
            # Mostly the slot that was not used up last time is not used up now.
            if allocated[above.slack] < deserved[above.slack]:
                continue
            for column, used in enumerate(allocated):
                if used < deserved[column]:
                    above.slack = column
                    break
            else:
                return True
        return False

    def refusal(
        self, node: QueueNode, pairs: Pairs, times: int = 1, *, extra: Row | None = None
    ) -> QueueRefusal | None:
        """Why `times` such kernels may not come on top of `extra`; only asked slots count."""
        by_share = self.policy == PROPORTION
        for above in node.chain():
            bounds, allocated = above.deserved if by_share else above.limit, above.allocated
            for column, amount in pairs:
                held = extra[column] if extra else 0
                used = allocated[column] + held
                if used + amount * times > bounds[column]:
                    if self.lends and self._may_pass(above, column, used + amount * times):
                        continue
                    code = Code.QUEUE_OVER_SHARE if by_share else Code.QUEUE_LIMIT
                    return QueueRefusal(
                        code, above.name, self._slots[column], amount * times, used, bounds[column], held
                    )
        return None

    def contended(self, node: QueueNode, pairs: Pairs) -> bool:
        """Whether a queue (or one above) is short of these slots while there are more."""
        by_share = self.policy == PROPORTION
        most = self._total
        return any(
            (above.deserved if by_share else above.limit)[column] < most[column]
            for above in node.chain()
            for column, _ in pairs
        )

    def _may_pass(self, node: QueueNode, column: int, wanted: int) -> bool:
        """Whether a queue that has not all of a slot yet may pass its share of it, within its limit."""
        return node.allocated[column] < node.deserved[column] and wanted <= node.limit[column]

    def room_for(self, node: QueueNode, pairs: Pairs, times: int, *, extra: Row | None = None) -> int:
        """How many of `times` such kernels the queue may still add."""
        by_share = self.policy == PROPORTION
        for above in node.chain():
            bounds, allocated = above.deserved if by_share else above.limit, above.allocated
            for column, amount in pairs:
                used = allocated[column] + extra[column] if extra else allocated[column]
                if used + amount * times > bounds[column]:
                    lent = self.lends and self._may_pass(above, column, 0)
                    bound = above.limit[column] if lent else bounds[column]
                    times = min(times, max(0, (bound - used) // amount))
        return times

    def view(self, node: QueueNode, *, extra: Row | None = None) -> QueueView:
        """A queue as plugins see it, with `extra` counted in."""
        used = [n + more for n, more in zip(node.allocated, extra, strict=True)] if extra else node.allocated
        allocated = dict(zip(self._slots, used, strict=True))
        deserved = dict(zip(self._slots, node.deserved, strict=True))
        queue = node.queue
        return QueueView(node.name, node.share, queue.priority, queue.weight, allocated, deserved)

    def walk(self, leaves: Iterable[QueueNode]) -> Generator[QueueNode, bool, None]:
        """The queue that goes next, again and again; send whether to keep it.

        Shares change only on the way from a leaf to the root, so each level keeps a
        heap of its own and the best path is walked down from the root.
        """
        self._fill_heaps(leaves)
        root = self._root
        while root.heap:
            leaf = root
            while leaf.heap:
                leaf = leaf.heap[0][2]
            keep = yield leaf
            # The best of each level is the first of its heap: only these have changed, leaf first.
            for node in leaf.path():
                heap = node.parent.heap if node.parent is not None else []
                if keep or node.heap:
                    keep = True
                    if len(heap) > 1:
                        heapreplace(heap, (self._order(node), node.name, node))
                else:
                    heappop(heap)

    def _fill_heaps(self, leaves: Iterable[QueueNode]) -> None:
        for node in (self._root, *self.nodes.values()):
            node.heap = []
        queued: set[str] = set()
        for leaf in leaves:
            for node in leaf.path():
                if node.name not in queued and node.parent is not None:
                    queued.add(node.name)
                    node.parent.heap.append((self._order(node), node.name, node))
        for node in (self._root, *self.nodes.values()):
            heapify(node.heap)

    def _order(self, node: QueueNode) -> tuple[object, ...]:
        """The smallest goes first: share, then priority. Without a deserved share it borrows only, and goes last."""
        borrows_only = self.policy == CAPACITY and not any(node.deserves)
        asked = self.order_key(node) if self.order_key is not None else ()
        return (asked, int(borrows_only), node.share, -node.queue.priority)

    def _attach(self, node: QueueNode) -> None:
        node.guarantee = [node.queue.guarantee[slot] for slot in self._slots]
        above = node.queue.parent if self.hierarchy and node.name != ROOT_QUEUE else ROOT_QUEUE
        problem = self._misplaced(node) if self.hierarchy else None
        if problem is not None:
            node.unfit = (Code.QUEUE_INVALID, problem)
            above = ROOT_QUEUE
        node.parent = self._root if above == ROOT_QUEUE else self.nodes[above]
        if problem is None:
            node.parent.children.append(node)

    def _misplaced(self, node: QueueNode) -> str | None:
        """What is wrong with a queue's place in the tree: a cycle, or a parent that is not there."""
        path, above = [node.name], str(node.queue.parent)
        while above != ROOT_QUEUE:
            if above not in self.nodes:
                return f"queue {path[-1]} has a parent {above} that is not there"
            if above in path:
                round_trip = " in ".join([*path[path.index(above) :], above])
                what = "is under itself" if above == node.name else "stands below a cycle"
                return f"queue {node.name} {what}: {round_trip}"
            path.append(above)
            above = str(self.nodes[above].queue.parent)
        return None

    def _limit_children(self, node: QueueNode) -> None:
        """A child may use what its parent may, less what its siblings are guaranteed."""
        promised = [sum(child.guarantee[c] for child in node.children) for c in range(len(self._total))]
        for child in node.children:
            for column, slot in enumerate(self._slots):
                rest = node.limit[column] - promised[column] + child.guarantee[column]
                child.limit[column] = max(0, min(child.queue.capability[slot], rest))
            child.deserves = [slot in child.queue.deserved for slot in self._slots]
            child.deserved = [child.queue.deserved[slot] for slot in self._slots]

    def _divide_among_children(self, node: QueueNode) -> None:
        claims = [ShareClaim(c.queue.weight, c.limit, c.request, c.guarantee) for c in node.children]
        for child, deserved in zip(node.children, divided(node.deserved, claims), strict=True):
            child.deserved, child.deserves = deserved, [True] * len(deserved)

    def _share(self, node: QueueNode) -> int:
        columns = [column for column, speaks in enumerate(node.deserves) if speaks]
        return max((_part(node.allocated[c], node.deserved[c]) for c in columns), default=0)


def _part(used: int, deserved: int) -> int:
    """The used part of what is deserved, in fixed point; using what is not deserved at all counts as 1."""
    if deserved:
        return used * ONE // deserved
    return ONE if used else 0
