"""Shapes: equal kernel requests, evaluated once against all agents.

Takes kernels and the workspace. Gives one Shape per distinct request (ShapeKey), with the
agents that could ever hold it, how many kernels each agent can take, and the FitError of a
shape that does not fit.
`agent_choice` stores its keys on the shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from sokovan.domain.cluster.agent import RUNTIME_LABEL, can_run
from sokovan.domain.cluster.image import image_runtime
from sokovan.domain.constraints.label_expression import LabelExpression
from sokovan.domain.constraints.taint import Toleration, taints_of, untolerated
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, is_accelerator
from sokovan.scheduling.engine.usage.affinity import AffinityIndex, AffinityRule
from sokovan.scheduling.engine.workspace import ONE_BITS, Flags, Ints, LoggedColumn, Workspace
from sokovan.scheduling.snapshot import KernelWorkload
from sokovan.scheduling.trace import Funnel


class ShapeKey(NamedTuple):
    """Everything that decides which agents can hold a kernel."""

    slots: ResourceSlot
    architecture: str
    require: tuple[tuple[str, str], ...] = ()
    avoid: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    meets: bool = False
    runtime: str = ""
    serves: bool = False
    where: tuple[LabelExpression, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: AffinityRule | None = None


class FitError(NamedTuple):
    """Why kernels of one shape do not fit on the agents.

    `funnel` counts the agents left after each predicate. `best_agent` is the eligible
    agent that lacks least now, `largest_agent` the one that lacks least even if empty;
    the shortfalls say what each lacks. `held_agent` has the room, but it is reserved for
    the session `holder`. With `by_ports` agents have the room, but not the ports; with
    `by_affinity` they have both, but affinity excludes them. `timed_agent` has the room, but
    not until the kernel would have ended: it is held from the time of `block` on.
    """

    funnel: Funnel
    kernels_fit: int
    held_agent: str | None
    holder: str
    best_agent: str | None
    shortfall: ResourceSlot
    largest_agent: str | None
    largest_shortfall: ResourceSlot
    by_ports: bool = False
    by_affinity: bool = False
    timed_agent: str | None = None
    block: int = 0


class ShapeAgents(NamedTuple):
    """Agents that could hold a kernel of a shape if they were empty, in growing sets.

    Of those of its architecture, runtime and labels, some are large enough and have no taint that
    it does not tolerate: these are possible. Of them, some are reachable; of these, those that do not fail are alive;
    of these, some are in a usable shard; of these, those that did not fail to start it
    lately are eligible; and of these, some have a free port where the kernels of its
    session could meet.
    """

    with_port: Flags
    eligible: Flags
    usable: Flags
    alive: Flags
    reachable: Flags
    possible: Flags
    matching: Flags


class Shape:
    """One distinct kernel request, evaluated against all agents."""

    def __init__(self, key: ShapeKey, workspace: Workspace, agents: ShapeAgents, funnel: Funnel) -> None:
        self.key = key
        self.slots, self.architecture, self.ports, self.affinity = key.slots, key.architecture, key.ports, key.affinity
        self.funnel, self.eligible, self._later = funnel, agents.with_port, agents.eligible
        self._matching = agents.matching
        request = np.array(workspace.row_of(self.slots, ports=self.ports), np.int64)
        nothing, blocks = np.zeros_like(request), np.zeros(workspace.blocks * len(request), np.int64)
        self.both: Ints = np.concatenate((request, request, blocks))
        self.later: Ints = np.concatenate((nothing, request, blocks))
        # The amounts that an evicted kernel releases; its ports rest first.
        self.released: Ints = self.later.copy()
        self.released[[column + workspace.width for column in workspace.port_column.values()]] = 0
        self.columns: Ints = np.flatnonzero(request)
        self.amounts: Ints = request[self.columns]
        self.pairs = list(zip(self.columns.tolist(), self.amounts.tolist(), strict=True))
        self.pairs_now = self.pairs
        self.pairs_later = [(column + workspace.width, amount) for column, amount in self.pairs]
        self.pairs_held = [*self.pairs, *self.pairs_later]
        # Without the columns that count ports and kernels.
        self.slot_pairs = [pair for pair in self.pairs if pair[0] < workspace.slot_count]
        counts = self._counts(workspace.capacity)
        # Kernels that the eligible agents could hold if they were empty.
        self.ever_total = int(counts[agents.eligible].sum())
        self.usable_total = int(counts[agents.usable].sum())  # the same, with agents that are avoided
        self.alive_total = int(counts[agents.alive].sum())  # the same, with agents of other shards
        self.reachable_total = int(counts[agents.reachable].sum())  # the same, with agents that fail sessions
        self.possible_total = int(counts[agents.possible].sum())  # the same, with agents that accept no work now
        self.size = workspace.size_of(request)
        # The blocks in which a kernel of this shape still runs, as bits, and the columns that these have.
        self.blocks = 0
        self.block_columns: Ints = np.zeros((0, len(self.columns)), np.int64)
        self._plain, self._timed = self, dict[int, Shape]()
        # Written by agent_choice.KeyedChoice: one key per agent, and how much of the log it has applied.
        self.base: Ints | None = None
        self.keys: Ints | None = None
        self.seen = 0
        self.future_keys = LoggedColumn()  # the same for room that is being released
        self._future_counts = LoggedColumn()

    def during(self, blocks: int, workspace: Workspace) -> Shape:
        """The same request by a session that still runs at the times of these blocks."""
        if blocks == self.blocks:
            return self
        if not blocks:
            return self._plain
        if blocks not in self._plain._timed:
            self._plain._timed[blocks] = self._plain._in_blocks(blocks, workspace)
        return self._plain._timed[blocks]

    def _in_blocks(self, blocks: int, workspace: Workspace) -> Shape:
        shape, width = copy(self), workspace.width
        numbers = [number for number in range(workspace.blocks) if blocks >> number & 1]
        shape.blocks, shape.keys, shape.seen = blocks, None, 0
        shape.future_keys, shape._future_counts = LoggedColumn(), LoggedColumn()
        starts = np.array([(2 + number) * width for number in numbers], np.int64)
        shape.block_columns = starts[:, None] + self.columns
        shape.both, shape.later, shape.released = self.both.copy(), self.later.copy(), self.released.copy()
        for start in starts.tolist():
            shape.both[start : start + width] = shape.later[start : start + width] = self.both[:width]
            shape.released[start : start + width] = self.released[width : 2 * width]
        pairs = [(start + column, amount) for start in starts.tolist() for column, amount in self.pairs]
        shape.pairs_now, shape.pairs_held = [*self.pairs_now, *pairs], [*self.pairs_held, *pairs]
        shape.pairs_later = [*self.pairs_later, *pairs]
        return shape

    def in_blocks(self, workspace: Workspace, agents: Ints | slice = slice(None)) -> Flags:
        """The agents that have room for a kernel at the time of each of its blocks."""
        room = workspace.room[agents][:, self.block_columns]
        return np.asarray((room >= self.amounts).all(axis=(1, 2)), bool)

    def _block_counts(self, workspace: Workspace, agents: Ints | slice) -> Ints:
        room = workspace.room[agents][:, self.block_columns]
        return np.asarray(np.maximum((room // self.amounts).min(axis=(1, 2)), 0), np.int64)

    def fit_counts(self, workspace: Workspace, agents: Ints | slice = slice(None)) -> Ints:
        """How many kernels of this shape each agent could take now."""
        counts = self._counts(workspace.idle[agents])
        if workspace.held:
            counts = np.minimum(counts, self._counts(workspace.future[agents]))
        if self.blocks:
            counts = np.minimum(counts, self._block_counts(workspace, agents))
        return np.asarray(np.where(self.allowed(agents), counts, 0), np.int64)

    def count_placed(self, agent: int, kernels: int) -> None:
        """Count placed kernels for affinity; a negative number takes them back."""
        if self.affinity is not None:
            self.affinity.count(agent, kernels)

    def allowed(self, agents: Ints | slice = slice(None)) -> Flags:
        """The eligible agents that affinity to other sessions allows now."""
        near = self.affinity.allowed(agents) if self.affinity is not None else None
        return self.eligible[agents] if near is None else self.eligible[agents] & near

    def future_counts(self, workspace: Workspace, agents: Ints | slice = slice(None)) -> Ints:
        """How many kernels each agent could take once everything being released is free."""
        counts = self._counts(workspace.future[agents])
        if self.blocks:
            counts = np.minimum(counts, self._block_counts(workspace, agents))
        return np.asarray(np.where(self.allowed(agents), counts, 0), np.int64)

    def future_seats(self, workspace: Workspace) -> Ints:
        """The future counts of all agents, as far as possible from an earlier call."""
        if self.affinity is not None:
            return self.future_counts(workspace)
        many = partial(self.future_counts, workspace)
        return self._future_counts.updated(workspace.log, many, partial(self._future_count, workspace)).copy()

    def _future_count(self, workspace: Workspace, agent: int) -> int:
        if not self.eligible[agent]:
            return 0
        row = workspace.room[agent].tolist()
        return int(max(0, min(row[column] // amount for column, amount in self.pairs_later)))

    def counts_with(self, workspace: Workspace, agents: Ints | slice, more: Ints) -> Ints:
        """How many kernels each agent could take later with so much more room."""
        counts = self._counts(workspace.future[agents] + more)
        return np.asarray(np.where(self.allowed(agents), counts, 0), np.int64)

    def ever_counts(self, workspace: Workspace) -> Ints:
        """How many kernels each agent could take if it were empty."""
        return np.asarray(np.where(self._later, self._counts(workspace.capacity), 0), np.int64)

    def possible_counts(self, workspace: Workspace, agents: Sequence[int]) -> Ints:
        """The kernels that each of these agents could take if empty and at work."""
        counts = self._counts(workspace.capacity[agents])
        return np.asarray(np.where(self._matching[agents], counts, 0), np.int64)

    def fit_error(self, workspace: Workspace) -> FitError:
        """Why (more) kernels of this shape do not fit now."""
        counts = self.fit_counts(workspace)
        fits = int((counts > 0).sum())
        held_agent, holder = self._held_room(workspace, counts)
        free = np.minimum(workspace.idle, workspace.future)
        best, shortfall = self._least_shortfall(workspace, free, self._later)
        candidates = self._matching if self._matching.any() else np.ones(len(workspace.ids), bool)
        largest, largest_shortfall = self._least_shortfall(workspace, workspace.capacity, candidates)
        funnel = self.funnel._replace(fits_now=fits, topology=fits)
        by_ports = (self.key.meets or bool(self.ports)) and not fits and self._fits_without_ports(workspace, free)
        by_affinity = (
            self.affinity is not None
            and not fits
            and bool(((free[:, self.columns] >= self.amounts).all(axis=1) & self.eligible).any())
        )
        lacks = (best, shortfall, largest, largest_shortfall)
        timed = self._held_later(workspace, free) if self.blocks and not fits else (None, 0)
        return FitError(funnel, int(counts.sum()), held_agent, holder, *lacks, by_ports, by_affinity, *timed)

    def _held_later(self, workspace: Workspace, free: Ints) -> tuple[str | None, int]:
        """The first agent with room for a kernel that is held before it would end, and the block."""
        room = np.flatnonzero((free[:, self.columns] >= self.amounts).all(axis=1) & self.allowed())
        if not len(room):
            return None, 0
        agent = int(room[workspace.id_rank[room].argmin()])
        short = (workspace.room[agent][self.block_columns] < self.amounts).any(axis=1)
        number = int(self.block_columns[int(short.argmax()), 0]) // workspace.width - 2
        return workspace.ids[agent], number

    def _held_room(self, workspace: Workspace, counts: Ints) -> tuple[str | None, str]:
        """The first agent with idle room for a kernel that is reserved for another session, and that session."""
        if not workspace.holders:
            return None, ""
        idle = workspace.idle[:, self.columns] + workspace.held_idle[:, self.columns]
        held = np.flatnonzero((idle >= self.amounts).all(axis=1) & self.eligible & (counts == 0))
        if not len(held):
            return None, ""
        agent = int(held[workspace.id_rank[held].argmin()])
        return workspace.ids[agent], workspace.holders.get(agent, "")

    def _fits_without_ports(self, workspace: Workspace, free: Ints) -> bool:
        """Whether an agent that may have a free port later has room."""
        others = [(column, amount) for column, amount in self.pairs if column not in workspace.port_column.values()]
        columns, amounts = np.array(others, np.int64).T
        return bool(((free[:, columns] >= amounts).all(axis=1) & self._later).any())

    def _least_shortfall(self, workspace: Workspace, amounts: Ints, among: Flags) -> tuple[str | None, ResourceSlot]:
        """The agent that lacks least of this shape, and the slots that it lacks."""
        chosen = np.flatnonzero(among)
        if not len(chosen):
            return None, NO_SLOTS
        lacking = np.maximum(self.amounts - amounts[chosen][:, self.columns], 0)
        # Both sides are shifted alike, so that the product with ONE stays inside 63 bits.
        shift = max(0, int(self.amounts.max()).bit_length() - 42)
        weighed = ((lacking >> shift) << ONE_BITS) // np.maximum(self.amounts >> shift, 1)
        best = int(np.lexsort((workspace.id_rank[chosen], weighed.sum(axis=1)))[0])
        lacked = zip(self.columns.tolist(), lacking[best].tolist(), strict=True)
        slots = {workspace.slots[column]: amount for column, amount in lacked if column < workspace.slot_count}
        return workspace.ids[int(chosen[best])], ResourceSlot(slots)

    def _counts(self, rows: Ints) -> Ints:
        return np.asarray(np.maximum((rows[:, self.columns] // self.amounts).min(axis=1), 0), np.int64)


class ShapeTable:
    """All shapes of a cycle, and the agents' labels, architectures and shards.

    With `own_shard`, agents of other shards come second (soft) or not at all (hard).
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        own_shard: str | None = None,
        hard_shards: bool = False,
        now_ms: int = 0,
        affinity: AffinityIndex | None = None,
    ) -> None:
        self.workspace, self._now_ms, self._affinity = workspace, now_ms, affinity
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self._plain: dict[tuple[ResourceSlot, str, str], Shape] = {}  # of kernels that ask for slots alone
        self._latest: tuple[ResourceSlot, str, str, Shape] | None = None
        # Of the kernels that run and are not being released, in the order of the snapshot: evictions need them again.
        self.running: list[Shape] = []
        self._labels: dict[tuple[str, str] | LabelExpression, Flags] = {}
        labels = [agent.labels for agent in workspace.agents]  # mostly none
        self._taints = [taints_of(one) if one else () for one in labels]
        self._any_taints = any(self._taints)
        self._runtimes = [one.get(RUNTIME_LABEL, "") if one else "" for one in labels]
        self._any_runtimes = any(self._runtimes)
        self._image_runtimes: dict[str, str] = {}
        self._running: dict[tuple[str, bool], Flags] = {}
        architectures = [agent.architecture for agent in workspace.agents]
        codes = {name: code for code, name in enumerate(dict.fromkeys(architectures))}
        self._architecture_codes = codes
        self._architectures: Ints = np.array([codes[name] for name in architectures], np.int64)
        self._accelerators = [c for c, slot in enumerate(workspace.slots) if is_accelerator(slot)]
        self.own: Flags | None = None
        if own_shard is not None:
            self.own = np.array([agent.shard == own_shard for agent in workspace.agents], bool)
        self._hard = hard_shards
        self._without_ports = workspace.without_ports()

    def of(self, kernel: KernelWorkload) -> Shape:
        """The shape of a kernel."""
        plain = kernel.constraints is None and not (
            kernel.require or kernel.avoid or kernel.ports or kernel.meets or kernel.serves
        )
        runtime = self._runtime(kernel.image) if self._any_runtimes else ""
        if plain:
            # Mostly it is like the kernel before: the same object, which needs no hash.
            latest = self._latest
            if latest and kernel.slots is latest[0] and kernel.architecture == latest[1] and runtime == latest[2]:
                return latest[3]
            key = (kernel.slots, kernel.architecture, runtime)
            shape = self._plain.get(key)
            if shape is None:
                shape = self._plain[key] = self._constrained(kernel, runtime)
            self._latest = (*key, shape)
            return shape
        return self._constrained(kernel, runtime)

    def _constrained(self, kernel: KernelWorkload, runtime: str) -> Shape:
        """The shape of a kernel by all that it says."""
        require = tuple(sorted(kernel.require.items())) if kernel.require else ()
        avoid = self._avoided(kernel) if kernel.avoid else ()
        constraints = kernel.constraints
        meets = kernel.meets and self._without_ports is not None
        serves = kernel.serves and self._any_runtimes
        key: tuple[object, ...] = (
            kernel.slots,
            kernel.architecture,
            require,
            avoid,
            kernel.ports,
            meets,
            runtime,
            serves,
        )
        if constraints is not None:
            affinity = self._affinity.rule(constraints) if self._affinity is not None else None
            key = (*key, constraints.where, constraints.tolerations if self._any_taints else (), affinity)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._evaluate(ShapeKey(*key))  # type: ignore[arg-type]  # built in its order
        return shape

    def _runtime(self, image: str) -> str:
        """The runtime of an image, found once."""
        known = self._image_runtimes.get(image)
        if known is None:
            known = self._image_runtimes[image] = image_runtime(image)
        return known

    def _avoided(self, kernel: KernelWorkload) -> tuple[str, ...]:
        """The agents that are avoided now, sorted."""
        return tuple(sorted({agent for agent, until_ms in kernel.avoid if until_ms > self._now_ms}))

    def penalty(self, shape: Shape) -> Ints:
        """How many kinds of accelerators each agent has that the shape does not request."""
        unused = [column for column in self._accelerators if not shape.both[column]]
        return np.asarray((self.workspace.capacity[:, unused] > 0).sum(axis=1), np.int64)

    def has_labels(self, require: Iterable[tuple[str, str]], where: Iterable[LabelExpression] = ()) -> Flags:
        """The agents that have all of these labels and meet these conditions."""
        flags = np.ones(len(self.workspace.agents), bool)
        for pair in require:
            if pair not in self._labels:
                name, value = pair
                self._labels[pair] = np.array([a.labels.get(name) == value for a in self.workspace.agents], bool)
            flags = flags & self._labels[pair]
        for condition in where:
            if condition not in self._labels:
                self._labels[condition] = np.array([condition.holds(a.labels) for a in self.workspace.agents], bool)
            flags = flags & self._labels[condition]
        return flags

    def runs(self, runtime: str, *, serves: bool) -> Flags:
        """The agents that can run kernels of images of a runtime, found once."""
        if (runtime, serves) not in self._running:
            distinct = {own: can_run({RUNTIME_LABEL: own}, runtime, serves=serves) for own in set(self._runtimes)}
            self._running[runtime, serves] = np.array([distinct[own] for own in self._runtimes], bool)
        return self._running[runtime, serves]

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> Flags:
        """The agents without a taint, or with taints that are all tolerated."""
        distinct = {taints: not untolerated(taints, tolerations) for taints in set(self._taints)}
        return np.array([distinct[taints] for taints in self._taints], bool)

    def _evaluate(self, key: ShapeKey) -> Shape:
        workspace = self.workspace
        request = np.array(workspace.row_of(key.slots, ports=key.ports), np.int64)
        same = self._architectures == self._architecture_codes.get(key.architecture, -1)
        labelled = self.has_labels(key.require, key.where)
        holds = (workspace.capacity >= request).all(axis=1)
        alive, tainted, other_runtime = workspace.alive, 0, 0
        if key.runtime or key.serves:
            runs = self.runs(key.runtime, serves=key.serves)
            other_runtime, labelled = int((alive & same & ~runs).sum()), labelled & runs
        able = alive & same & labelled & holds
        possible = same & labelled & holds
        if self._any_taints:
            tolerated = self.tolerated(key.tolerations)
            tainted = int((able & ~tolerated).sum())
            able, possible = able & tolerated, possible & tolerated
        now = able & (workspace.idle >= request).all(axis=1)
        steps = (alive, alive & same, alive & same & labelled, able, now, now)
        counts = [int(flags.sum()) for flags in steps]
        funnel = Funnel(len(workspace.agents), *counts)._replace(tainted=tainted, other_runtime=other_runtime)
        usable = able & self.own if self._hard and self.own is not None else able
        eligible = usable
        if key.avoid:
            avoided = np.isin(np.array(workspace.ids), np.array(key.avoid))
            eligible, funnel = usable & ~avoided, funnel._replace(avoided=int((able & avoided).sum()))
        with_port = eligible & ~self._without_ports if key.meets and self._without_ports is not None else eligible
        failing = possible & workspace.failing
        agents = ShapeAgents(with_port, eligible, usable, able, able | failing, possible, same & labelled)
        return Shape(key, workspace, agents, funnel._replace(failing=int(failing.sum())))
