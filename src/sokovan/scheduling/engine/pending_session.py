"""A session as the engine works on it: what it needs, and what is enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sokovan.domain.session import TopologyConstraint
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.usage.owner_ledger import Entry
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueRefusal
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.scheduling.trace import Check, Code

NOBODY = -1
# Shared by all sessions of one kernel without group minimums; nobody asks for its counts.
_NO_GROUPS: Counter[str] = Counter()


class Failure(NamedTuple):
    """Why a session got nothing (more) in its last turn.

    `code` is None where the cause is room: what to say of it is worked out at the
    end of the cycle, when it is known who took the room.
    """

    code: Code | None
    text: str = ""
    shape: Shape | None = None
    closeness: bool = False
    checks: tuple[Check, ...] = ()
    refusal: QueueRefusal | None = None  # what a queue said; put into words only if somebody reads it


class KernelBatch:
    """Kernels of one shape and group that stand next to each other in the order."""

    __slots__ = ("best_effort", "group", "kernels", "nominated", "part", "shape")

    def __init__(
        self, shape: Shape, kernels: list[KernelWorkload], *, nominated: int = NOBODY, part: int = NOBODY
    ) -> None:
        self.shape, self.group, self.kernels = shape, kernels[0].group, kernels
        self.nominated, self.part = nominated, part
        self.best_effort = not shape.slots

    def takes(self, kernel: KernelWorkload, shape: Shape, *, part: int, nominated: int) -> bool:
        """Whether a kernel may join: everything that decides where it goes is the same."""
        alike = self.shape is shape and self.group == kernel.group and self.part == part
        return alike and self.nominated == nominated == NOBODY


@dataclass(slots=True)
class Outlook:
    """What is needed to look at a session: shapes, nominations, kernel order.

    `alike` is False where a plugin may tell kernels of one shape apart; each kernel
    is then asked about alone.
    """

    table: ShapeTable
    nominations: Mapping[str, str] = field(default_factory=dict)
    kernel_key: Callable[[KernelWorkload], tuple[object, ...]] | None = None
    alike: bool = True

    def nominated(self, kernel: KernelWorkload) -> int:
        """Where the kernel is nominated to, by itself or by an earlier cycle."""
        agent = kernel.nominated or self.nominations.get(kernel.kernel_id)
        return NOBODY if agent is None else self.table.workspace.position.get(agent, NOBODY)


@dataclass(slots=True)
class KernelGroupState:
    """A kernel group of a partition: ready with `size` kernels, close by its own rule."""

    partition: int
    value: str
    size: int
    topology: TopologyConstraint | None
    have: int = 0
    agents: list[int] = field(default_factory=list)


class PendingSession:
    """A session in the running cycle; `have` counts what runs or is placed."""

    # Defaults of the class: there are many sessions, and most of them never change these.
    rank = 0
    order: tuple[int, ...] = ()
    placed = 0
    reserved = 0
    fitted = 0
    failure: Failure | None = None
    entry: Entry | None = None
    rules: tuple[Any, ...] = ()
    checks: tuple[Check, ...] = ()
    single = False
    barred: frozenset[Shape] | None = None  # shapes that a limit keeps out of this turn
    objection: Failure | None = None  # why they are kept out

    def __init__(self, session: SessionWorkload, node: QueueNode, outlook: Outlook) -> None:
        self.session, self.node = session, node
        self.minimum = session.gang_size
        self.agents: list[int] = []
        self.parts: list[KernelGroupState] = []
        kernels, table = session.kernels, outlook.table
        if len(kernels) == 1 and not session.partitions and kernels[0].agent is None and kernels[0].slots:
            # The common case, spelt out: most sessions are one kernel that waits.
            kernel = kernels[0]
            self.runs = [KernelBatch(table.of(kernel), [kernel], nominated=outlook.nominated(kernel))]
            self.have = 0
            self.best_effort: list[KernelBatch] = []
            self.group_have = Counter[str]() if session.group_minimums else _NO_GROUPS
            bound = session.topology is not None or session.group_minimums or self.runs[0].nominated != NOBODY
            self.single = not bound
        else:
            self._set_up(outlook)
        self.starts = not self.agents

    @property
    def waiting(self) -> int:
        """How many kernels are still to be placed."""
        return sum(len(run.kernels) for run in self.runs)

    def need(self) -> int:
        """How many kernels this turn must place: up to the minimum, then one at a time."""
        return max(1, self.minimum - self.have)

    def grows(self) -> bool:
        """Whether the session has all it must have, and only grows from here."""
        if self.have < self.minimum:
            return False
        return not (self.session.group_minimums or self.parts) or self.ready(0, {}, {})

    def next_slots(self) -> ResourceSlot:
        """What the next kernels in the order ask for, as many as this turn must place."""
        if self.single:
            return self.runs[0].shape.slots
        need, slots = self.need(), []
        for run in self.runs:
            count = min(need, len(run.kernels))
            slots.append(run.shape.slots if count == 1 else run.shape.slots * count)
            need -= count
            if not need:
                break
        return slots[0] if len(slots) == 1 else total(slots)

    def ready(self, more: int, more_by_group: Mapping[str, int], more_by_part: Mapping[int, int]) -> bool:
        """Whether the session would run with so many more kernels."""
        if self.have + more < self.minimum:
            return False
        minimums = self.session.group_minimums
        if any(self.group_have[group] + more_by_group.get(group, 0) < least for group, least in minimums.items()):
            return False
        return all(
            sum(
                self._part_ready(index, more_by_part)
                for index, part in enumerate(self.parts)
                if part.partition == number
            )
            >= partition.min_groups
            for number, partition in enumerate(self.session.partitions)
        )

    def stands(self, found: Sequence[KernelBatch], lacking: Sequence[KernelBatch]) -> bool:
        """Whether the session would run with what is found and without what is lacking.

        Kernels that ask for nothing count from the beginning; the ones that have found
        no place must not be counted on.
        """
        solid = [run for run in found if not run.best_effort]
        groups, parts = (Counter(getattr(run, name) for run in solid) for name in ("group", "part"))
        groups.subtract(run.group for run in lacking)
        parts.subtract(run.part for run in lacking)
        return self.ready(len(solid) - len(lacking), groups, parts)

    def part_size(self, index: int) -> int:
        """How many kernels a kernel group has, running or waiting."""
        return self.parts[index].have + sum(len(run.kernels) for run in self.runs if run.part == index)

    def _part_ready(self, index: int, more: Mapping[int, int]) -> bool:
        part = self.parts[index]
        return part.have + more.get(index, 0) >= part.size

    def _set_up(self, outlook: Outlook) -> None:
        """Sort the kernels into those that count already, those that wait and those that ask for nothing."""
        by_value: dict[tuple[int, str], int] = {}
        waiting: list[tuple[int, KernelWorkload, int]] = []
        self.best_effort = []
        self.group_have = Counter()
        for index, kernel in enumerate(self.session.kernels):
            part = self._part_of(kernel, by_value)
            if kernel.agent is None and kernel.slots:
                waiting.append((index, kernel, part))
                continue
            if kernel.agent is not None and not kernel.releasing:
                self._count(kernel, part, outlook.table.workspace)
            elif kernel.agent is None:
                # It asks for nothing, so it counts as being there; whoever relies on it finds it a place.
                run = KernelBatch(outlook.table.of(kernel), [kernel], nominated=outlook.nominated(kernel), part=part)
                self.best_effort.append(run)
                self._count_in(run)
        self.have = len(self.agents) + len(self.best_effort)
        self.runs = _runs(waiting, outlook)

    def _count(self, kernel: KernelWorkload, part: int, workspace: Workspace) -> None:
        agent = workspace.position.get(str(kernel.agent), NOBODY)
        self.agents.append(agent)
        self.group_have[kernel.group] += 1
        if part != NOBODY:
            self.parts[part].have += 1
            self.parts[part].agents.append(agent)

    def _count_in(self, run: KernelBatch) -> None:
        self.group_have[run.group] += 1
        if run.part != NOBODY:
            self.parts[run.part].have += 1

    def _part_of(self, kernel: KernelWorkload, by_value: dict[tuple[int, str], int]) -> int:
        """The kernel group by the first partition whose label the kernel carries."""
        for number, partition in enumerate(self.session.partitions):
            value = kernel.labels.get(partition.by)
            if value is not None:
                key = (number, value)
                if key not in by_value:
                    by_value[key] = len(self.parts)
                    self.parts.append(KernelGroupState(number, value, partition.size, partition.topology))
                return by_value[key]
        return NOBODY


def _runs(waiting: Iterable[tuple[int, KernelWorkload, int]], outlook: Outlook) -> list[KernelBatch]:
    """Kernels in the order in which they are placed: priority, then larger first, then as listed."""
    shaped = [(kernel, outlook.table.of(kernel), part, index) for index, kernel, part in waiting]
    extra = outlook.kernel_key
    shaped.sort(key=lambda item: (extra(item[0]) if extra else (), -item[0].priority, -item[1].size, item[3]))
    runs: list[KernelBatch] = []
    for kernel, shape, part, _ in shaped:
        place = outlook.nominated(kernel)
        last = runs[-1] if runs else None
        if last is not None and outlook.alike and last.takes(kernel, shape, part=part, nominated=place):
            last.kernels.append(kernel)
        else:
            runs.append(KernelBatch(shape, [kernel], nominated=place, part=part))
    return runs
