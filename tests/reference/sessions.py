"""A session in the reference scheduler: running and waiting kernels, and its minimums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.scheduling.trace import Code
from tests.reference.machines import ONE

# A kernel group: the number of its partition, and the value of the label that its kernels share.
Group = tuple[int, str]
PlacedKernel = tuple[KernelWorkload, str]


@dataclass(frozen=True)
class Reason:
    """Why a session was not placed: a code, or the kernel that has no room.

    It is vague where domains were searched: closeness, queue and room may all stand
    in the way, and which of them is named is not a matter of rule.
    """

    code: Code | None = None
    short: KernelWorkload | None = None
    vague: bool = False


class WaitingSession:
    """One session with waiting kernels."""

    def __init__(self, session: SessionWorkload, largest: Mapping[str, int], rank: int) -> None:
        self.session, self.rank = session, rank
        self.queue = str(session.queue)  # the one that it is charged to: that of a lender, if it borrows
        self.minimum = session.gang_size
        self.running = [(k, str(k.agent)) for k in session.kernels if k.agent is not None and not k.releasing]
        self.best_effort = [k for k in session.kernels if k.agent is None and not k.slots]
        self.was_running = bool(self.running)
        self.placed = self.reserved = 0
        self.reason: Reason | None = None
        waiting = [(index, k) for index, k in enumerate(session.kernels) if k.agent is None and k.slots]
        waiting.sort(key=lambda item: (-item[1].priority, -_size(item[1], largest), item[0]))
        self.waiting = [kernel for _, kernel in waiting]

    @property
    def starts(self) -> bool:
        """Whether the session would start with its next kernel."""
        return not self.was_running and not self.placed

    def present(self) -> list[KernelWorkload]:
        """The kernels that count: running ones and best-effort ones."""
        return [*(kernel for kernel, _ in self.running), *self.best_effort]

    def counted(self) -> int:
        """How many kernels count towards the minimum."""
        return len(self.present())

    def missing(self) -> int:
        """How many kernels the next attempt must place: up to the minimum, then one at a time."""
        return max(1, self.minimum - self.counted())

    def ready(self, more: Sequence[KernelWorkload] = ()) -> bool:
        """Whether the session would run with these kernels as well."""
        if self.counted() + len(more) < self.minimum:
            return False
        for group, least in self.session.group_minimums.items():
            if sum(1 for kernel in (*self.present(), *more) if kernel.group == group) < least:
                return False
        for number, partition in enumerate(self.session.partitions):
            whole = [g for g in self.groups() if g[0] == number and self.group_ready(g, more)]
            if len(whole) < partition.min_groups:
                return False
        return True

    def groups(self) -> list[Group]:
        """The kernel groups of all partitions, in the order of the kernels."""
        groups = [self.group_of(kernel) for kernel in self.session.kernels]
        return list(dict.fromkeys(group for group in groups if group is not None))

    def group_of(self, kernel: KernelWorkload) -> Group | None:
        """The group by the first partition whose label the kernel has."""
        for number, partition in enumerate(self.session.partitions):
            if partition.by in kernel.labels:
                return (number, kernel.labels[partition.by])
        return None

    def group_ready(self, group: Group, more: Sequence[KernelWorkload]) -> bool:
        """Whether a kernel group has its size."""
        kernels = [*self.present(), *more]
        return sum(1 for k in kernels if self.group_of(k) == group) >= self.session.partitions[group[0]].size

    def can_be_whole(self, kernel: KernelWorkload) -> bool:
        """Whether the kernel's group has enough kernels to be ready at all."""
        group = self.group_of(kernel)
        return group is None or self.group_ready(group, self.waiting)

    def agents(self, group: Group | None = None) -> set[str]:
        """The agents of the running kernels of the session, or of one group."""
        return {agent for kernel, agent in self.running if group is None or self.group_of(kernel) == group}


def _size(kernel: KernelWorkload, largest: Mapping[str, int]) -> int:
    """The largest share that the kernel takes of any slot of the largest machine."""
    return max([0, *(amount * ONE // max(1, largest.get(slot, 0)) for slot, amount in kernel.slots.items())])
