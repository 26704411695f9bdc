"""Queues of the reference scheduler: limits, deserved shares and order, computed anew each time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.reference.machines import ONE

ROOT = str(ROOT_QUEUE)
Amounts = dict[str, int]


def total_slots(agents: Iterable[AgentInfo]) -> ResourceSlot:
    """Slots of schedulable agents, plus the slots in use on all others."""
    return total(info.available_slots if info.schedulable else info.occupied_slots for info in agents)


class Queues:
    """All queues of a cycle, by name."""

    def __init__(self, snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
        self._profile = profile
        listed = {str(queue.name): queue for queue in snapshot.queues}
        self._root = listed.pop(ROOT, Queue(ROOT_QUEUE))
        self._queues: dict[str, Queue] = listed
        for session in snapshot.sessions:
            for name in (session.queue, session.charged):
                self._queues.setdefault(str(name), Queue(name))
        kernels = [kernel for session in snapshot.sessions for kernel in session.kernels]
        self._slots = sorted(
            {
                *(slot for kernel in kernels for slot in kernel.slots),
                *(slot for info in snapshot.agents for slot in info.available_slots),
            }
        )
        self._total = total_slots(snapshot.agents)
        self._used: list[tuple[str, KernelWorkload]] = []
        self._requested: list[tuple[str, KernelWorkload]] = []
        self.lending = False
        self.ended: frozenset[str] = frozenset()  # kernels that no longer count, at a later time
        self._limit: dict[str, Amounts] = {}
        self._deserved: dict[str, Amounts] = {}

    def add_usage(self, queue: str, kernel: KernelWorkload) -> None:
        """Count a kernel that runs, is placed or is reserved."""
        self._used.append((queue, kernel))

    def add_request(self, queue: str, kernel: KernelWorkload) -> None:
        """Count a kernel that runs or could run."""
        self._requested.append((queue, kernel))

    def settle(self) -> None:
        """Compute limits and deserved shares from the root down."""
        whole = {slot: min(self._total[slot], self._root.capability[slot]) for slot in self._slots}
        self._limit[ROOT], self._deserved[ROOT] = whole, whole
        level = [ROOT]
        while level:
            for parent in level:
                self._settle_below(parent)
            level = [child for parent in level for child in self._children(parent)]

    def problem(self, name: str) -> Code | None:
        """Why a queue runs nothing, if so."""
        if self._invalid(name):
            return Code.QUEUE_INVALID
        if self._children(name):
            return Code.QUEUE_NOT_LEAF
        closed = any(self._queues[above].state is QueueState.CLOSED for above in self._path(name))
        return Code.QUEUE_CLOSED if closed else None

    def overused(self, name: str) -> bool:
        """Whether a queue or one above it has all of its deserved share by weight."""
        if self._profile.queue_policy != "proportion":
            return False
        return any(self._has_all(above) for above in self._limiting(name))

    def refusal(self, name: str, kernel: KernelWorkload, held: Sequence[KernelWorkload]) -> Code | None:
        """Why one more kernel is refused on top of what the attempt holds."""
        by_weight = self._profile.queue_policy == "proportion"
        for above in self._limiting(name):
            used = self._used_by(above)
            for slot, amount in kernel.slots.items():
                # While lending, a queue below its share of a slot may exceed it.
                lent = self.lending and used[slot] < self._deserved[above][slot]
                bound = self._deserved[above][slot] if by_weight and not lent else self._limit[above][slot]
                if used[slot] + amount + sum(other.slots[slot] for other in held) > bound:
                    return Code.QUEUE_OVER_SHARE if by_weight else Code.QUEUE_LIMIT
        return None

    def contended(self, name: str, kernel: KernelWorkload) -> bool:
        """Whether a queue, or one above it, may use less of the slots than it requests and the cluster has."""
        bounds = self._deserved if self._profile.queue_policy == "proportion" else self._limit
        return any(
            bounds[above][slot] < min(self._total[slot], self._sum(above, self._requested)[slot])
            for above in self._limiting(name)
            for slot in kernel.slots
        )

    def over_limit(self, name: str, waiting: Sequence[KernelWorkload], need: int) -> bool:
        """Whether `need` of the waiting kernels exceed a limit, even the smallest of them."""
        for above in self._limiting(name):
            for slot, limit in self._limit[above].items():
                least = sum(sorted(kernel.slots[slot] for kernel in waiting)[:need])
                limited = least > 0 and limit < self._total[slot]
                if limited and self._used_by(above)[slot] + least > limit:
                    return True
        return False

    def lenders(self, borrower: str, grace_ms: int, asked: Sequence[KernelWorkload]) -> list[str]:
        """The queues with so much of their guarantee unused, if it comes back in time."""
        found = []
        for name, queue in self._queues.items():
            used, more = self._used_by(name), total(kernel.slots for kernel in asked)
            if name == borrower or self._children(name) or queue.return_s is None or grace_ms > queue.return_s * 1000:
                continue
            if all(used[slot] + amount <= queue.guarantee[slot] for slot, amount in more.items()):
                found.append(name)
        return found

    def next(self, names: Iterable[str]) -> str:
        """The next queue: from the root down, the best one with waiting sessions at each level."""
        waiting = set(names)
        above = ROOT
        while True:
            below = [child for child in self._children(above) if any(child in self._path(name) for name in waiting)]
            above = min(below, key=self._order)
            if above in waiting:
                return above

    def _order(self, name: str) -> tuple[object, ...]:
        borrows_only = self._profile.queue_policy == "capacity" and not self._deserved[name]
        return (borrows_only, self._share(name), -self._queues[name].priority, name)

    def _share(self, name: str) -> int:
        """The largest share of used over deserved, in 2**20ths."""
        shares = [0]
        for slot, deserved in self._deserved[name].items():
            used = self._used_by(name)[slot]
            shares.append(used * ONE // deserved if deserved else ONE * bool(used))
        return max(shares)

    def _has_all(self, name: str) -> bool:
        used = self._used_by(name)
        return all(used[slot] >= self._deserved[name][slot] for slot in self._slots)

    def _used_by(self, name: str) -> Amounts:
        return self._sum(name, [one for one in self._used if str(one[1].kernel_id) not in self.ended])

    def _sum(self, name: str, counted: Iterable[tuple[str, KernelWorkload]]) -> Amounts:
        """The sum of the requests of a queue and of those below it."""
        mine = [kernel for queue, kernel in counted if name in self._limiting(queue)]
        return {slot: sum(kernel.slots[slot] for kernel in mine) for slot in self._slots}

    def _parent(self, name: str) -> str:
        return str(self._queues[name].parent) if self._profile.hierarchy else ROOT

    def _invalid(self, name: str) -> bool:
        seen: list[str] = []
        while name != ROOT:
            if name in seen or name not in self._queues:
                return True
            seen.append(name)
            name = self._parent(name)
        return False

    def _path(self, name: str) -> list[str]:
        """A queue and those above it, without the root."""
        if self._invalid(name):
            return [name]
        waiting = []
        while name != ROOT:
            waiting.append(name)
            name = self._parent(name)
        return waiting

    def _limiting(self, name: str) -> list[str]:
        """The queues whose limits apply: itself, those above, and a root with limits."""
        return [*self._path(name), *([ROOT] if self._root.capability else [])]

    def _children(self, name: str) -> list[str]:
        return [other for other in self._queues if not self._invalid(other) and self._parent(other) == name]

    def _settle_below(self, parent: str) -> None:
        children = self._children(parent)
        for child in children:
            queue = self._queues[child]
            self._limit[child] = {}
            for slot in self._slots:
                reserved = sum(self._queues[other].guarantee[slot] for other in children if other != child)
                self._limit[child][slot] = max(0, min(queue.capability[slot], self._limit[parent][slot] - reserved))
            self._deserved[child] = {slot: queue.deserved[slot] for slot in self._slots if slot in queue.deserved}
        if self._profile.queue_policy == "proportion":
            self._deserved.update(self._divided(parent, children))

    def _divided(self, parent: str, children: Sequence[str]) -> dict[str, Amounts]:
        """Divide the deserved amount of the parent among the children, slot by slot."""
        deserved: dict[str, Amounts] = {child: {} for child in children}
        for slot in self._slots:
            for child, amount in self._divide_slot(slot, self._deserved[parent][slot], children).items():
                deserved[child][slot] = amount
        return deserved

    def _divide_slot(self, slot: str, amount: int, children: Sequence[str]) -> Amounts:
        """Water-filling: offer the rest by weight to unsatisfied queues until nothing changes."""
        have = {child: self._queues[child].guarantee[slot] for child in children}
        while True:
            left = amount - sum(have.values())
            unsatisfied = [child for child in sorted(children) if have[child] < self._most(child, slot)]
            weights = sum(self._queues[child].weight for child in unsatisfied)
            offers = {child: max(0, left) * self._queues[child].weight // weights for child in unsatisfied}
            takes = {child: min(offers[child], self._most(child, slot) - have[child]) for child in unsatisfied}
            if not any(takes.values()):
                break
            for child, taken in takes.items():
                have[child] += taken
        # The remainder of rounding is given out one by one, larger weights first.
        unsatisfied.sort(key=lambda child: -self._queues[child].weight)
        for child in unsatisfied[: max(0, left)]:
            have[child] += 1
        return have

    def _most(self, child: str, slot: str) -> int:
        """At most its limit and its request, at least its guarantee."""
        requested = self._sum(child, self._requested)[slot]
        return max(min(self._limit[child][slot], requested), self._queues[child].guarantee[slot])
