"""QueueUsage: limits and usage of every queue, and the order of queues.

Takes the queues of a snapshot, the requests of their sessions and the charges of each
placement. Gives refusals, shares and the next queue to serve. The policy `proportion`
divides the cluster by weight (see `queue_shares`). The policy `capacity` takes the
configured amounts: a queue may borrow beyond its deserved amount, up to its
capability less what its siblings are guaranteed. In a hierarchy only leaves run
sessions, every ancestor's limit holds, and an unset limit is the parent's. A queue
with an invalid parent runs nothing and affects no other queue.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState
from sokovan.domain.ids import QueueName
from sokovan.domain.slot_notation import format_amount
from sokovan.domain.slots import UNLIMITED
from sokovan.scheduling.engine.usage.queue_shares import Row, ShareClaim, divide
from sokovan.scheduling.engine.workspace import ONE
from sokovan.scheduling.extensions import QueueView
from sokovan.scheduling.plan import QueueShare
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
        self.deserves = [False] * width  # the columns that have a deserved amount
        self.limit: Row = [UNLIMITED] * width
        self.share = 0
        self.unused_column = 0  # a column that was below the deserved amount last time
        self.unfit: tuple[Code, str] | None = None
        self.heap: list[tuple[tuple[object, ...], str, QueueNode]] = []

    @cached_property
    def path(self) -> tuple[QueueNode, ...]:
        """The queue and its ancestors, without the root; read once the queue is attached."""
        nodes, node = [], self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return tuple(nodes)

    @cached_property
    def limiting_queues(self) -> tuple[QueueNode, ...]:
        """The queues whose limits apply: itself, its ancestors, and a root with limits."""
        path = self.path
        root = path[-1].parent if path else None
        return (*path, root) if root is not None and root.queue.capability else path


class QueueRefusal(NamedTuple):
    """Why a queue admits no more: which queue, which slot, and the amounts.

    `held` is the part of `used` that the session's own Statement holds.
    """

    code: Code
    queue: str
    slot: str
    amount: int
    used: int
    limit: int
    held: int = 0

    @property
    def request(self) -> int:
        """The whole request of the session, including its tentative kernels."""
        return self.amount + self.held

    def sentence(self) -> str:
        """The refusal as a sentence."""
        request, used, limit = (format_amount(self.slot, n) for n in (self.request, self.used - self.held, self.limit))
        bound = "deserves" if self.code is Code.QUEUE_OVER_SHARE else "may use"
        return f"queue {self.queue} uses {used} {self.slot} and {bound} {limit}; {request} more would exceed it"


class QueueUsage:
    """All queues of a cycle: their limits, their usage, and their order."""

    def __init__(
        self, queues: Iterable[Queue], *, policy: str, hierarchy: bool, total: Row, slots: Sequence[str]
    ) -> None:
        self.policy, self.hierarchy = policy, hierarchy
        self.total, self.slots = total, tuple(slots)
        self.order_key: Callable[[QueueNode], tuple[int, ...]] | None = None
        listed = {str(queue.name): queue for queue in queues}
        self._root = QueueNode(listed.pop(ROOT_QUEUE, Queue(name=ROOT_QUEUE)), len(total))
        # Sorted by name, so that the result does not depend on the order of the snapshot.
        self.nodes = {name: QueueNode(listed[name], len(total)) for name in sorted(listed)}
        for node in list(self.nodes.values()):
            self._attach(node)
        # Set while queues may exceed their deserved amount by one session, to use agents that would stay idle.
        self.lending = False

    def node(self, name: str) -> QueueNode:
        """The queue of this name; an unknown one has weight 1 and no limits."""
        if name not in self.nodes:
            self.nodes[name] = QueueNode(Queue(name=QueueName(name)), len(self.total))
            self._attach(self.nodes[name])
        return self.nodes[name]

    def add_request(self, name: str, pairs: Pairs, times: int = 1) -> None:
        """Add to what a queue requests, running or waiting."""
        for node in self.node(name).limiting_queues:
            for column, amount in pairs:
                node.request[column] += amount * times

    def add_running(self, name: str, pairs: Pairs, times: int = 1) -> None:
        """Add to what a queue uses at the start of the cycle."""
        for node in self.node(name).limiting_queues:
            for column, amount in pairs:
                node.allocated[column] += amount * times

    def settle(self) -> None:
        """Compute limits, deserved amounts and shares from what was added."""
        bounds = [min(n, self._root.queue.capability[s]) for n, s in zip(self.total, self.slots, strict=True)]
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
        """Add a placement to a queue and those above it; negative times take it off."""
        for above in node.limiting_queues:
            allocated, deserves, deserved, share = above.allocated, above.deserves, above.deserved, above.share
            for column, amount in pairs:
                used = allocated[column] = allocated[column] + amount * times
                if deserves[column]:
                    share = max(share, used * ONE // deserved[column] if deserved[column] else ONE)
            above.share = share if times > 0 else self._share(above)

    def unfit(self, node: QueueNode) -> tuple[Code, str] | None:
        """Why a queue runs no session at all, if so."""
        if node.unfit is not None:
            return node.unfit
        if self.hierarchy and node.name == ROOT_QUEUE:
            return Code.QUEUE_NOT_LEAF, "the root queue runs no sessions; only leaf queues do"
        if self.hierarchy and node.children:
            below = len(node.children)
            return Code.QUEUE_NOT_LEAF, f"queue {node.name} has {below} queues below it; only leaf queues run sessions"
        above = (*node.path, self._root) if self.hierarchy else (node,)
        closed = next((n for n in above if n.queue.state is QueueState.CLOSED), None)
        return None if closed is None else (Code.QUEUE_CLOSED, f"queue {closed.name} is closed")

    def overused(self, node: QueueNode) -> bool:
        """Whether a queue, or one above it, uses its whole deserved share."""
        if self.policy != PROPORTION:
            return False
        for above in node.limiting_queues:
            allocated, deserved = above.allocated, above.deserved
            # Usually the slot that had a remainder last time still has one.
            column = above.unused_column
            if allocated[column] < deserved[column]:
                continue
            for column, used in enumerate(allocated):
                if used < deserved[column]:
                    above.unused_column = column
                    break
            else:
                return True
        return False

    def refusal(
        self, node: QueueNode, pairs: Pairs, times: int = 1, *, extra: Row | None = None
    ) -> QueueRefusal | None:
        """Why `times` such kernels on top of `extra` are refused, if so."""
        by_share = self.policy == PROPORTION
        for above in node.limiting_queues:
            bounds, allocated = above.deserved if by_share else above.limit, above.allocated
            for column, amount in pairs:
                held = extra[column] if extra else 0
                used = allocated[column] + held
                if used + amount * times > bounds[column]:
                    if self.lending and self._may_exceed_share(above, column, used + amount * times):
                        continue
                    code = Code.QUEUE_OVER_SHARE if by_share else Code.QUEUE_LIMIT
                    return QueueRefusal(
                        code, above.name, self.slots[column], amount * times, used, bounds[column], held
                    )
        return None

    def contended(self, node: QueueNode, pairs: Pairs) -> bool:
        """Whether a queue (or one above) is limited in one of these slots.

        Then it may use less than it requests and the cluster has. A share that ends at the
        request of the queue is not what it waits for.
        """
        by_share = self.policy == PROPORTION
        total = self.total
        return any(
            (above.deserved if by_share else above.limit)[column] < min(total[column], above.request[column])
            for above in node.limiting_queues
            for column, _ in pairs
        )

    def _may_exceed_share(self, node: QueueNode, column: int, amount: int) -> bool:
        """Whether a queue below its share of a slot may exceed it, within its limit."""
        return node.allocated[column] < node.deserved[column] and amount <= node.limit[column]

    def room_for(self, node: QueueNode, pairs: Pairs, times: int, *, extra: Row | None = None) -> int:
        """How many of `times` such kernels the queue may still take."""
        by_share = self.policy == PROPORTION
        for above in node.limiting_queues:
            bounds, allocated = above.deserved if by_share else above.limit, above.allocated
            for column, amount in pairs:
                used = allocated[column] + extra[column] if extra else allocated[column]
                if used + amount * times > bounds[column]:
                    lent = self.lending and self._may_exceed_share(above, column, 0)
                    bound = above.limit[column] if lent else bounds[column]
                    times = min(times, max(0, (bound - used) // amount))
        return times

    def view(self, node: QueueNode, *, extra: Row | None = None) -> QueueView:
        """A queue as plugins see it, with `extra` added to its usage."""
        used = [n + more for n, more in zip(node.allocated, extra, strict=True)] if extra else node.allocated
        allocated = dict(zip(self.slots, used, strict=True))
        deserved = dict(zip(self.slots, node.deserved, strict=True))
        queue = node.queue
        return QueueView(node.name, node.share, queue.priority, queue.weight, allocated, deserved)

    def walk(self, leaves: Iterable[QueueNode]) -> Generator[QueueNode, bool, None]:
        """Yield the next leaf queue to serve; send whether it has sessions left.

        Shares change only on the path from a leaf to the root, so each level has its own
        heap and the best path is followed from the root down.
        """
        self._fill_heaps(leaves)
        root = self._root
        while root.heap:
            leaf = root
            while leaf.heap:
                leaf = leaf.heap[0][2]
            keep = yield leaf
            # Only the first entry of each level's heap has changed; update from the leaf up.
            for node in leaf.path:
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
            for node in leaf.path:
                if node.name not in queued and node.parent is not None:
                    queued.add(node.name)
                    node.parent.heap.append((self._order(node), node.name, node))
        for node in (self._root, *self.nodes.values()):
            heapify(node.heap)

    def _order(self, node: QueueNode) -> tuple[object, ...]:
        """Smallest first: share, then priority. A queue without a deserved amount only borrows, and goes last."""
        borrows_only = self.policy == CAPACITY and not any(node.deserves)
        plugin_key = self.order_key(node) if self.order_key is not None else ()
        return (plugin_key, int(borrows_only), node.share, -node.queue.priority)

    def _attach(self, node: QueueNode) -> None:
        node.guarantee = [node.queue.guarantee[slot] for slot in self.slots]
        above = node.queue.parent if self.hierarchy and node.name != ROOT_QUEUE else ROOT_QUEUE
        problem = self._invalid_parent(node) if self.hierarchy else None
        if problem is not None:
            node.unfit = (Code.QUEUE_INVALID, problem)
            above = ROOT_QUEUE
        node.parent = self._root if above == ROOT_QUEUE else self.nodes[above]
        if problem is None:
            node.parent.children.append(node)

    def _invalid_parent(self, node: QueueNode) -> str | None:
        """Why a queue's parent is invalid: a cycle, or a parent that does not exist."""
        path, above = [node.name], str(node.queue.parent)
        while above != ROOT_QUEUE:
            if above not in self.nodes:
                return f"queue {path[-1]} has a parent {above} that does not exist"
            if above in path:
                cycle = " in ".join([*path[path.index(above) :], above])
                what = "is its own ancestor" if above == node.name else "is below a cycle"
                return f"queue {node.name} {what}: {cycle}"
            path.append(above)
            above = str(self.nodes[above].queue.parent)
        return None

    def _limit_children(self, node: QueueNode) -> None:
        """Set each child's limit: the parent's, less what its siblings are guaranteed."""
        guaranteed = [sum(child.guarantee[c] for child in node.children) for c in range(len(self.total))]
        for child in node.children:
            for column, slot in enumerate(self.slots):
                rest = node.limit[column] - guaranteed[column] + child.guarantee[column]
                child.limit[column] = max(0, min(child.queue.capability[slot], rest))
            child.deserves = [slot in child.queue.deserved for slot in self.slots]
            child.deserved = [child.queue.deserved[slot] for slot in self.slots]

    def _divide_among_children(self, node: QueueNode) -> None:
        claims = [ShareClaim(c.queue.weight, c.limit, c.request, c.guarantee) for c in node.children]
        for child, deserved in zip(node.children, divide(node.deserved, claims), strict=True):
            child.deserved, child.deserves = deserved, [True] * len(deserved)

    def _share(self, node: QueueNode) -> int:
        columns = [column for column, has_share in enumerate(node.deserves) if has_share]
        return max((_used_share(node.allocated[c], node.deserved[c]) for c in columns), default=0)


def shares_of(usage: QueueUsage) -> tuple[QueueShare, ...]:
    """The shares of queues that use, request or deserve something, by queue and slot."""
    return tuple(
        QueueShare(
            QueueName(node.name), slot, used, requested, node.deserved[column] if deserves else None,
            node.guarantee[column], node.limit[column],
        )
        for node in usage.nodes.values()
        for column, (slot, used, requested, deserves) in enumerate(
            zip(usage.slots, node.allocated, node.request, node.deserves, strict=True)
        )
        if used or requested or (deserves and node.deserved[column]) or node.guarantee[column]
    )  # fmt: skip


def lenders(usage: QueueUsage, borrower: QueueNode, grace_ms: int, asked: Mapping[int, int]) -> Iterator[QueueNode]:
    """The queues with so much of their guarantee unused, if it comes back in time."""
    for node in usage.nodes.values():
        return_s = node.queue.return_s
        if node is borrower or node.children or return_s is None or grace_ms > return_s * 1000:
            continue
        if all(node.allocated[column] + amount <= node.guarantee[column] for column, amount in asked.items()):
            yield node


def _used_share(used: int, deserved: int) -> int:
    """Used over deserved, in fixed point; usage without a deserved amount counts as 1."""
    if deserved:
        return used * ONE // deserved
    return ONE if used else 0
