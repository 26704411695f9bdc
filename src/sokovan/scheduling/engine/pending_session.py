"""PendingSession: a waiting session as one cycle works on it.

Takes a SessionWorkload, its queue and a BatchingContext. Gives the kernels still to
be placed as batches of equal kernels in placement order, and answers whether a set
of placed kernels is enough for the session to run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sokovan.domain.session import TopologyConstraint
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.usage.owner_ledger import LedgerEntry
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueRefusal
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.scheduling.trace import Check, Code

NO_AGENT = -1  # not nominated, or an agent that is not in the snapshot
NO_GROUP = -1  # in no kernel group of a partition
# Shared by all sessions of one kernel without group minimums; its counts are never read.
_NO_GROUPS: Counter[str] = Counter()


class PendingReason(NamedTuple):
    """Why a session got no (more) kernels in its last placement attempt.

    `code` is None if no agent has room: the Explainer picks the code at the end of the
    cycle, from the FitError of `shape`. Something of it changes at `until_ms` by itself.
    """

    code: Code | None
    text: str = ""
    shape: Shape | None = None
    topology: bool = False
    checks: tuple[Check, ...] = ()
    refusal: QueueRefusal | None = None  # formatted only if the verdict needs it
    until_ms: int | None = None


class KernelBatch:
    """Consecutive kernels of one shape and group in the placement order.

    `group` is the kernels' own group name; `kernel_group` is the index of the
    KernelGroupState that a partition puts them in.
    """

    __slots__ = ("best_effort", "group", "kernel_group", "kernels", "nominated", "shape")

    def __init__(
        self, shape: Shape, kernels: list[KernelWorkload], *, nominated: int = NO_AGENT, kernel_group: int = NO_GROUP
    ) -> None:
        self.shape, self.group, self.kernels = shape, kernels[0].group, kernels
        self.nominated, self.kernel_group = nominated, kernel_group
        self.best_effort = not shape.slot_pairs

    def accepts(self, kernel: KernelWorkload, shape: Shape, *, kernel_group: int, nominated: int) -> bool:
        """Whether a kernel may join: everything that decides its placement is equal."""
        equal = self.shape is shape and self.group == kernel.group and self.kernel_group == kernel_group
        return equal and self.nominated == nominated == NO_AGENT

    def part(self, kernels: list[KernelWorkload]) -> KernelBatch:
        """A batch of some of these kernels."""
        return KernelBatch(self.shape, kernels, nominated=self.nominated, kernel_group=self.kernel_group)


TentativeKernel = tuple[KernelBatch, KernelWorkload, int]  # the last is the row of the agent


@dataclass(slots=True)
class BatchingContext:
    """The inputs for building batches: shapes, nominations, kernel order.

    With `batch_equal` False (a plugin may treat kernels of one shape differently)
    every kernel is a batch of its own.
    """

    table: ShapeTable
    nominations: Mapping[str, str] = field(default_factory=dict)
    kernel_key: Callable[[KernelWorkload], tuple[object, ...]] | None = None
    batch_equal: bool = True

    def nominated(self, kernel: KernelWorkload) -> int:
        """The agent that the kernel itself or an earlier cycle nominates."""
        agent = kernel.nominated or self.nominations.get(kernel.kernel_id)
        return NO_AGENT if agent is None else self.table.workspace.position.get(agent, NO_AGENT)


@dataclass(slots=True)
class KernelGroupState:
    """A kernel group of a partition: ready with `size` kernels, with its own topology."""

    partition: int
    value: str
    size: int
    topology: TopologyConstraint | None
    have: int = 0
    agents: list[int] = field(default_factory=list)


class PendingSession:
    """A session in the running cycle; `have` counts kernels that run or are placed."""

    # Class attributes as defaults: there are many sessions, and most of them never change these.
    rank = 0
    order: tuple[int, ...] = ()
    placed = 0
    reserved = 0
    evicts = 0  # kernels that this cycle evicts for it
    kernels_fit = 0
    reason: PendingReason | None = None
    ledger_entry: LedgerEntry | None = None
    rules: tuple[Any, ...] = ()
    checks: tuple[Check, ...] = ()
    single = False
    excluded_shapes: frozenset[Shape] | None = None  # shapes that an owner's limit excludes from this attempt
    limit_reason: PendingReason | None = None  # why they are excluded
    loan_s: int | None = None  # within how many seconds it must return what it runs on, if that is lent
    starts_ms: int | None = None  # by when it starts, if room is held for it from a time on

    def __init__(self, session: SessionWorkload, node: QueueNode, batching: BatchingContext) -> None:
        self.session, self.node = session, node
        self.agents: list[int] = []
        self.kernel_groups: list[KernelGroupState] = []
        kernels, table = session.kernels, batching.table
        if len(kernels) == 1 and not session.partitions and kernels[0].agent is None and kernels[0].slots:
            # Most sessions are one waiting kernel; set up without the loops of `_set_up`.
            kernel = kernels[0]
            self.batches = [KernelBatch(table.of(kernel), [kernel], nominated=batching.nominated(kernel))]
            self.minimum = 1 if session.min_kernels is None else session.gang_size
            self.have = 0
            self.best_effort: list[KernelBatch] = []
            self.group_have = Counter[str]() if session.group_minimums else _NO_GROUPS
            bound = session.topology is not None or session.group_minimums or self.batches[0].nominated != NO_AGENT
            self.single = not bound
        else:
            self.minimum = session.gang_size
            self._set_up(batching)
        self.starts = not self.agents

    @property
    def started(self) -> bool:
        """Whether kernels of it were placed in this cycle."""
        return self.placed > 0

    @property
    def waiting(self) -> int:
        """How many kernels are still to be placed."""
        return sum(len(batch.kernels) for batch in self.batches)

    def need(self) -> int:
        """How many kernels the next attempt must place: the minimum, then one."""
        return max(1, self.minimum - self.have)

    def grows(self) -> bool:
        """Whether the session has its minimum and only adds kernels."""
        if self.have < self.minimum:
            return False
        return not (self.session.group_minimums or self.kernel_groups) or self.ready(0, {}, {})

    def next_slots(self) -> ResourceSlot:
        """The slots of the kernels that the next attempt must place."""
        if self.single:
            return self.batches[0].shape.slots
        need, slots = self.need(), []
        for batch in self.batches:
            count = min(need, len(batch.kernels))
            slots.append(batch.shape.slots if count == 1 else batch.shape.slots * count)
            need -= count
            if not need:
                break
        return slots[0] if len(slots) == 1 else total(slots)

    def ready(self, more: int, more_by_group: Mapping[str, int], more_by_kernel_group: Mapping[int, int]) -> bool:
        """Whether the session would run with so many more kernels."""
        if self.have + more < self.minimum:
            return False
        minimums = self.session.group_minimums
        if any(self.group_have[group] + more_by_group.get(group, 0) < least for group, least in minimums.items()):
            return False
        return all(
            sum(
                group.have + more_by_kernel_group.get(index, 0) >= group.size
                for index, group in enumerate(self.kernel_groups)
                if group.partition == number
            )
            >= partition.min_groups
            for number, partition in enumerate(self.session.partitions)
        )

    def ready_with(self, kernels: Sequence[TentativeKernel]) -> bool:
        """Whether the session would run with these kernels as well."""
        if self.best_effort:
            # Best-effort kernels are in `have` from the start.
            kernels = [entry for entry in kernels if not entry[0].best_effort]
        if self.have + len(kernels) < self.minimum:
            return False
        if not self.session.group_minimums and not self.kernel_groups:
            return True
        groups = Counter(batch.group for batch, _, _ in kernels)
        return self.ready(len(kernels), groups, Counter(batch.kernel_group for batch, _, _ in kernels))

    def ready_without(self, found: Sequence[KernelBatch], lacking: Sequence[KernelBatch]) -> bool:
        """Whether the session would run with `found` but without `lacking`.

        Best-effort kernels are in `have` from the start; `lacking` are those without an
        agent.
        """
        solid = [batch for batch in found if not batch.best_effort]
        groups, kernel_groups = (Counter(getattr(batch, name) for batch in solid) for name in ("group", "kernel_group"))
        groups.subtract(batch.group for batch in lacking)
        kernel_groups.subtract(batch.kernel_group for batch in lacking)
        return self.ready(len(solid) - len(lacking), groups, kernel_groups)

    def kernel_group_size(self, index: int) -> int:
        """How many kernels a kernel group has, running or waiting."""
        waiting = sum(len(batch.kernels) for batch in self.batches if batch.kernel_group == index)
        return self.kernel_groups[index].have + waiting

    def _set_up(self, batching: BatchingContext) -> None:
        """Sort the kernels into running, waiting and best-effort ones."""
        by_value: dict[tuple[int, str], int] = {}
        waiting: list[tuple[int, KernelWorkload, int]] = []
        self.best_effort = []
        self.group_have = Counter()
        for index, kernel in enumerate(self.session.kernels):
            group = self._kernel_group_of(kernel, by_value)
            if kernel.agent is None and kernel.slots:
                waiting.append((index, kernel, group))
                continue
            if kernel.agent is not None and not kernel.releasing:
                self._count_running(kernel, group, batching.table.workspace)
            elif kernel.agent is None:
                # A best-effort kernel counts towards the minimum before it has an agent.
                nominated = batching.nominated(kernel)
                batch = KernelBatch(batching.table.of(kernel), [kernel], nominated=nominated, kernel_group=group)
                self.best_effort.append(batch)
                self._count_best_effort(batch)
        self.have = len(self.agents) + len(self.best_effort)
        self.batches = _batches(waiting, batching)

    def _count_running(self, kernel: KernelWorkload, group: int, workspace: Workspace) -> None:
        agent = workspace.position.get(str(kernel.agent), NO_AGENT)
        self.agents.append(agent)
        self.group_have[kernel.group] += 1
        if group != NO_GROUP:
            self.kernel_groups[group].have += 1
            self.kernel_groups[group].agents.append(agent)

    def _count_best_effort(self, batch: KernelBatch) -> None:
        self.group_have[batch.group] += 1
        if batch.kernel_group != NO_GROUP:
            self.kernel_groups[batch.kernel_group].have += 1

    def _kernel_group_of(self, kernel: KernelWorkload, by_value: dict[tuple[int, str], int]) -> int:
        """The kernel group by the first partition whose label the kernel has."""
        for number, partition in enumerate(self.session.partitions):
            value = kernel.labels.get(partition.by)
            if value is not None:
                key = (number, value)
                if key not in by_value:
                    by_value[key] = len(self.kernel_groups)
                    self.kernel_groups.append(KernelGroupState(number, value, partition.size, partition.topology))
                return by_value[key]
        return NO_GROUP


class UnmetMinimums:
    """The kernels that group minimums lack, and the kernel groups that have them."""

    def __init__(
        self, pending: PendingSession, batches: Sequence[KernelBatch], kernels: Sequence[TentativeKernel]
    ) -> None:
        self._lacking = Counter(pending.session.group_minimums) - pending.group_have
        if self._lacking:
            self._lacking -= Counter(batch.group for batch, _, _ in kernels)
        self._left: Counter[tuple[int, str]] = Counter()  # by kernel group and group
        if self._lacking:
            for batch in batches:
                self._left[batch.kernel_group, batch.group] += len(batch.kernels)
            self._left.subtract((batch.kernel_group, batch.group) for batch, _, _ in kernels)
        self._total: Counter[str] = Counter()
        for (_, group), count in self._left.items():
            self._total[group] += count

    def given_by(self, index: int) -> int:
        """How many of the lacking kernels a kernel group has."""
        return sum(min(count, self._left[index, group]) for group, count in self._lacking.items())

    def only_from(self, index: int) -> Counter[str]:
        """The lacking kernels, by group, that all other kernel groups are too few for."""
        others = {group: self._total[group] - self._left[index, group] for group in self._lacking}
        return self._lacking - Counter(others)

    def split(self, index: int, batches: Sequence[KernelBatch]) -> tuple[list[KernelBatch], list[KernelBatch]]:
        """The kernels that no other kernel group has; the others, lacking ones first."""
        if not self._lacking:
            return [], list(batches)
        only, lacking = self.only_from(index), self._lacking.copy()
        parts: tuple[list[KernelBatch], ...] = ([], [], [])
        for batch in batches:
            first = min(only[batch.group], len(batch.kernels))
            second = max(first, min(lacking[batch.group], len(batch.kernels)))
            only[batch.group] -= first
            lacking[batch.group] -= second
            for part, low, high in zip(parts, (0, first, second), (first, second, None), strict=True):
                if kernels := batch.kernels[low:high]:
                    part.append(batch.part(kernels))
        return parts[0], [*parts[1], *parts[2]]


def _batches(waiting: Iterable[tuple[int, KernelWorkload, int]], batching: BatchingContext) -> list[KernelBatch]:
    """Kernels in placement order: priority, then larger first, then as listed."""
    shaped = [(kernel, batching.table.of(kernel), group, index) for index, kernel, group in waiting]
    extra = batching.kernel_key
    shaped.sort(key=lambda item: (extra(item[0]) if extra else (), -item[0].priority, -item[1].size, item[3]))
    batches: list[KernelBatch] = []
    for kernel, shape, group, _ in shaped:
        nominated = batching.nominated(kernel)
        last = batches[-1] if batches and batching.batch_equal else None
        if last is not None and last.accepts(kernel, shape, kernel_group=group, nominated=nominated):
            last.kernels.append(kernel)
        else:
            batches.append(KernelBatch(shape, [kernel], nominated=nominated, kernel_group=group))
    return batches
