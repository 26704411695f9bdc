"""Shapes: equal requests, evaluated once for all agents.

A shape is everything that decides where a kernel may go: its slots, architecture
and required labels. What does not change in a cycle (which agents could ever take
it) is worked out once; how agents rank for it is kept by `choice`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.engine.workspace import Flags, Ints, Workspace
from sokovan.scheduling.snapshot import KernelWorkload
from sokovan.scheduling.trace import Funnel

ShapeKey = tuple[ResourceSlot, str, tuple[tuple[str, str], ...]]


class Shape:
    """One kind of request against all agents."""

    def __init__(
        self, key: ShapeKey, workspace: Workspace, *, eligible: Flags, alive: Flags, possible: Flags, funnel: Funnel
    ) -> None:
        self.slots, self.architecture, self.require = key
        self.funnel, self.eligible = funnel, eligible
        request = np.array(workspace.row_of(self.slots), np.int64)
        self.both: Ints = np.concatenate((request, request))
        self.later: Ints = np.concatenate((np.zeros_like(request), request))
        self.columns: Ints = np.flatnonzero(request)
        self.amounts: Ints = request[self.columns]
        self.pairs = list(zip(self.columns.tolist(), self.amounts.tolist(), strict=True))
        self.pairs_held = [*self.pairs, *((column + workspace.width, amount) for column, amount in self.pairs)]
        self.slot_pairs = self.pairs[:-1]  # without the place for the kernel itself
        counts = self._counts(workspace.capacity)
        self.ever_total = int(counts[eligible].sum())  # kernels that agents of today could hold if they were empty
        self.alive_total = int(counts[alive].sum())  # the same, with agents of other shards
        self.possible_total = int(counts[possible].sum())  # the same, with agents that take no work at the moment
        self.size = workspace.size_of(request)
        # Kept by choice.KeyedChoice: one number per agent, and how much of the log it has seen.
        self.base: Ints | None = None
        self.keys: Ints | None = None
        self.seen = 0

    def fit_counts(self, workspace: Workspace, agents: Ints | slice = slice(None)) -> Ints:
        """How many kernels of this shape each agent could take now."""
        counts = self._counts(workspace.idle[agents])
        if workspace.held:
            counts = np.minimum(counts, self._counts(workspace.future[agents]))
        return np.asarray(np.where(self.eligible[agents], counts, 0), np.int64)

    def future_counts(self, workspace: Workspace, agents: Ints | slice = slice(None)) -> Ints:
        """How many kernels each agent could take once everything on its way out has gone."""
        return np.asarray(np.where(self.eligible[agents], self._counts(workspace.future[agents]), 0), np.int64)

    def ever_counts(self, workspace: Workspace) -> Ints:
        """How many kernels each agent could take if it were empty."""
        return np.asarray(np.where(self.eligible, self._counts(workspace.capacity), 0), np.int64)

    def _counts(self, rows: Ints) -> Ints:
        return np.asarray(np.maximum((rows[:, self.columns] // self.amounts).min(axis=1), 0), np.int64)


class ShapeTable:
    """All shapes of a cycle, and what about agents does not change in it.

    With `own_shard`, agents of other shards come second (soft) or not at all (hard).
    """

    def __init__(self, workspace: Workspace, *, own_shard: str | None = None, hard_shards: bool = False) -> None:
        self.workspace = workspace
        self._shapes: dict[ShapeKey, Shape] = {}
        self._labels: dict[tuple[str, str], Flags] = {}
        codes: dict[str, int] = {}
        architectures = [codes.setdefault(agent.architecture, len(codes)) for agent in workspace.agents]
        self._architecture_codes = codes
        self._architectures: Ints = np.array(architectures, np.int64)
        self._accelerators = [c for c, slot in enumerate(workspace.slots) if is_accelerator(slot)]
        self.own: Flags | None = None
        if own_shard is not None:
            self.own = np.array([agent.shard == own_shard for agent in workspace.agents], bool)
        self._hard = hard_shards

    def of(self, kernel: KernelWorkload) -> Shape:
        """The shape of a kernel."""
        require = tuple(sorted(kernel.require.items())) if kernel.require else ()
        key = (kernel.slots, kernel.architecture, require)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._made(key)
        return shape

    def penalty(self, shape: Shape) -> Ints:
        """How many kinds of accelerators an agent has that the shape has no use for."""
        unused = [column for column in self._accelerators if not shape.both[column]]
        return np.asarray((self.workspace.capacity[:, unused] > 0).sum(axis=1), np.int64)

    def has_labels(self, require: Iterable[tuple[str, str]]) -> Flags:
        """The agents that carry every one of these labels."""
        flags = np.ones(len(self.workspace.agents), bool)
        for pair in require:
            if pair not in self._labels:
                name, value = pair
                self._labels[pair] = np.array([a.labels.get(name) == value for a in self.workspace.agents], bool)
            flags = flags & self._labels[pair]
        return flags

    def _made(self, key: ShapeKey) -> Shape:
        workspace = self.workspace
        slots, architecture, require = key
        request = np.array(workspace.row_of(slots), np.int64)
        same = self._architectures == self._architecture_codes.get(architecture, -1)
        labelled = self.has_labels(require)
        holds = (workspace.capacity >= request).all(axis=1)
        alive = workspace.alive
        able = alive & same & labelled & holds
        now = able & (workspace.idle >= request).all(axis=1)
        steps = (alive, alive & same, alive & same & labelled, able, now, now)
        funnel = Funnel(len(workspace.agents), *(int(flags.sum()) for flags in steps))
        eligible = able & self.own if self._hard and self.own is not None else able
        possible = same & labelled & holds
        return Shape(key, workspace, eligible=eligible, alive=able, possible=possible, funnel=funnel)


def is_accelerator(slot: str) -> bool:
    """Whether a slot is a device, or a share of one, to be left to those who ask."""
    return slot.endswith((".device", ".shares"))
