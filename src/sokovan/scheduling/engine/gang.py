"""KernelPlacer: fills agents with the kernels of one session.

Takes a PendingSession, the CycleContext, a Statement and a range of agent rows.
Gives tentative placements on the Statement, in kernel order, until the session is
ready. A kernel that fits no agent is skipped as long as the remaining ones could
still be enough (NeedContinueAllocating). Rolling back is left to the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from sokovan.domain.cluster.topology import ROOT
from sokovan.domain.session import TopologyMode
from sokovan.scheduling.engine.agent_choice import AgentChoice
from sokovan.scheduling.engine.pending_session import (
    NO_AGENT,
    NO_GROUP,
    KernelBatch,
    PendingReason,
    PendingSession,
    TentativeKernel,
)
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.statement import Statement, TrialChanges
from sokovan.scheduling.engine.timing.calendar import Calendar
from sokovan.scheduling.engine.topology_search import TopologySearch
from sokovan.scheduling.engine.usage.best_effort_usage import BestEffortUsage
from sokovan.scheduling.engine.usage.queue_usage import QueueRefusal, QueueUsage
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.extensions import Extensions
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.scheduling.trace import Code

# From this many equal kernels on, all agents are filled in one array operation.
_MANY = 32


@dataclass(slots=True)
class CycleContext:
    """The state that all placement attempts of one cycle share."""

    workspace: Workspace
    choice: AgentChoice
    queue_usage: QueueUsage
    extensions: Extensions
    # Shapes that fit no agent while nothing was tentative. None turns the cache off. Evictions clear it: otherwise
    # room only shrinks in a cycle.
    fit_error_cache: set[Shape] | None = field(default_factory=set)
    best_effort: BestEffortUsage | None = None  # None if no best-effort kernel waits or runs
    prefer_lower_tier: bool = False  # whether waiting in a low tier is better than starting in a higher one
    custom_plugins: bool = False  # whether a plugin or a custom selector may keep kernels from agents
    calendar: Calendar | None = None  # None if no session has a time limit and nothing is booked
    _topology: TopologySearch | None = None

    @property
    def topology(self) -> TopologySearch:
        """The HyperNode search, built when the first session needs it."""
        if self._topology is None:
            self._topology = TopologySearch(self.workspace)
        return self._topology

    def best_effort_left(self, session: SessionWorkload) -> int:
        """How many more best-effort kernels the owner of a session may run."""
        return len(session.kernels) if self.best_effort is None else self.best_effort.left(session)

    def best_effort_limit(self, session: SessionWorkload) -> PendingReason:
        """The reason of a session whose owner may run too few more best-effort kernels."""
        return PendingReason(Code.BEST_EFFORT, "" if self.best_effort is None else self.best_effort.limit_text(session))

    def count_best_effort(self, session: SessionWorkload, placed: Sequence[TentativeKernel]) -> None:
        """Count the best-effort kernels among those that were placed."""
        if self.best_effort is not None:
            self.best_effort.count(session, sum(batch.best_effort for batch, _, _ in placed))

    @contextmanager
    def tried(self, pending: PendingSession) -> Iterator[TrialChanges]:
        """Try a session; unless the trial is `kept`, its end undoes all changes.

        It does not use the FitError cache, and the session has its reason of before afterwards.
        """
        reason, kernels_fit, releases = pending.reason, pending.kernels_fit, self.workspace.releases
        cache, self.fit_error_cache = self.fit_error_cache, None
        trial = TrialChanges(self.workspace, self.choice)
        try:
            yield trial
        finally:
            pending.reason, self.fit_error_cache = reason, cache
            if not trial.kept:
                trial.roll_back()
                pending.kernels_fit, self.workspace.releases = kernels_fit, releases

    @property
    def all_agents(self) -> range:
        """The rows of all agents."""
        return range(len(self.workspace.ids))


class KernelPlacer:
    """Places kernels of one session on the agents of a range."""

    def __init__(self, pending: PendingSession, context: CycleContext, statement: Statement) -> None:
        self._pending, self._context, self._statement = pending, context, statement
        self._workspace, self._choice = context.workspace, context.choice
        self.may_reserve = True
        self.reserves_best_effort = False  # whether a best-effort kernel may wait for room that is being released
        self.refusal: QueueRefusal | None = None
        self.misfit: Shape | None = None  # the first shape that found no agent
        # Whether a plugin keeps one more kernel out of the queue, on top of what the statement holds.
        self.refused_by_plugin: Callable[[KernelWorkload, list[int] | None], bool] | None = None

    def fill(self, batches: Sequence[KernelBatch], agents: range) -> None:
        """Place kernels in their order until the session is ready, or cannot be.

        Group minimums are placed first, so that the surplus of one group does not take
        the room that another needs.
        """
        if self._pending.session.group_minimums and not self._fill_group_minimums(batches, agents):
            return
        for position, batch in enumerate(batches):
            kernels = self._unused(batch)[: self._missing(self._statement.placed)]
            if not kernels:
                continue
            got = self._fill_batch(batch, kernels, agents)
            if got < len(kernels) and not self._can_become_ready(batches[position + 1 :]):
                return
            if got and self._pending.ready_with(self._statement.placed):
                return

    def fill_exactly(self, batches: Sequence[KernelBatch], count: int, agents: range) -> bool:
        """Place or reserve `count` kernels; False (with some placed) if they do not fit."""
        for batch in batches:
            if count:
                count -= self._fill_batch(batch, batch.kernels[:count], agents, whole=True)
        return not count

    def place(self, batch: KernelBatch, kernels: Sequence[KernelWorkload], agents: range) -> int:
        """Place as many of these equal kernels as there is room for now."""
        if not kernels:
            return 0
        if batch.nominated != NO_AGENT and self._place_nominated(batch, kernels[0], agents):
            return 1
        cache = self._context.fit_error_cache
        if cache is not None and batch.shape in cache:
            self.misfit = self.misfit or batch.shape
            return 0
        got, shape, choice = 0, batch.shape, self._choice
        one_by_one = not choice.fills or (shape.affinity is not None and shape.affinity.changes_itself)
        if not one_by_one and len(kernels) >= _MANY:
            return self._place_many(batch, kernels, agents)
        while got < len(kernels):
            agent = choice.now(shape, agents.start, agents.stop, kernels[got])
            if agent < 0:
                self._remember_misfit(shape, agents)
                break
            count = 1 if one_by_one or len(kernels) == 1 else min(len(kernels) - got, self._room(shape, agent))
            self._statement.place(batch, kernels[got : got + count], agent)
            got += count
        return got

    def place_best_effort(self, batch: KernelBatch, agents: range) -> bool:
        """Place a best-effort kernel; a hard topology of its kernel group holds."""
        pending, index = self._pending, batch.kernel_group
        group = None if index == NO_GROUP else pending.kernel_groups[index]
        if group is None or group.topology is None or group.topology.mode is TopologyMode.SOFT:
            return self._seat_best_effort(batch, agents)
        topology = self._context.topology
        used = [agent for other, _, agent in self._statement.kernels if other.kernel_group == index]
        for tier in topology.tiers(topology.tier_limit(group.topology), inside=ROOT, agents=[*group.agents, *used]):
            for inner in map(topology.agents, tier.names):
                inside = agents.start <= inner.start and inner.stop <= agents.stop
                if inside and self._seat_best_effort(batch, inner):
                    return True
        return False

    def _seat_best_effort(self, batch: KernelBatch, agents: range) -> bool:
        if self.place(batch, batch.kernels, agents):
            return True
        return self.reserves_best_effort and self.reserve(batch, batch.kernels, agents) > 0

    def reserve(self, batch: KernelBatch, kernels: Sequence[KernelWorkload], agents: range) -> int:
        """Reserve room that is being released for as many of these kernels as fit."""
        if not self._workspace.releases:
            return 0
        got = 0
        for kernel in kernels:
            agent = self._future_agent(batch, kernel, agents)
            if agent < 0:
                break
            self._statement.reserve(batch, kernel, agent)
            got += 1
        return got

    def _fill_group_minimums(self, batches: Sequence[KernelBatch], agents: range) -> bool:
        """Place the minimum of every group; False if one does not fit."""
        for group, least in sorted(self._pending.session.group_minimums.items()):
            lacking = least - self._pending.group_have[group]
            for batch in batches:
                if batch.group == group and lacking > 0:
                    lacking -= self._fill_batch(batch, batch.kernels[:lacking], agents, whole=True)
            if lacking > 0:
                return False
        return True

    def _fill_batch(
        self, batch: KernelBatch, kernels: Sequence[KernelWorkload], agents: range, *, whole: bool = False
    ) -> int:
        """Place these kernels now; reserve for the others as far as that helps the session to become ready."""
        allowed = self._allowed_by_queue(batch, kernels)
        got = self.place(batch, kernels[:allowed], agents)
        if got < allowed and self.may_reserve:
            useful = allowed if whole else min(allowed, got + self._missing(self._statement.kernels))
            got += self.reserve(batch, kernels[got:useful], agents)
        return got

    def _unused(self, batch: KernelBatch) -> list[KernelWorkload]:
        """The kernels of a batch that are not on the statement yet."""
        if not self._pending.session.group_minimums:
            return batch.kernels
        used = sum(1 for other, _, _ in self._statement.kernels if other is batch)
        return batch.kernels[used:]

    def _remember_misfit(self, shape: Shape, agents: range) -> None:
        self.misfit = self.misfit or shape
        # With affinity, kernels placed later in the cycle may open agents.
        cache = self._context.fit_error_cache if shape.affinity is None else None
        if cache is not None and agents == self._context.all_agents and not self._statement.checkpoint():
            cache.add(shape)

    def _future_agent(self, batch: KernelBatch, kernel: KernelWorkload, agents: range) -> int:
        nominated = batch.nominated
        if self._nomination_allowed(batch, kernel, agents) and self._free_later(batch.shape, nominated):
            return nominated
        return self._choice.later(batch.shape, agents.start, agents.stop, kernel)

    def _free_later(self, shape: Shape, agent: int) -> bool:
        """Whether one agent has room for a kernel once everything being released is free."""
        return bool(shape.future_counts(self._workspace, np.array([agent]))[0])

    def _nomination_allowed(self, batch: KernelBatch, kernel: KernelWorkload, agents: range) -> bool:
        """Whether the nominated agent is in range and passes every predicate except room."""
        agent = batch.nominated
        return agent in agents and bool(batch.shape.allowed()[agent]) and self._choice.allows(kernel, agent)

    def _place_nominated(self, batch: KernelBatch, kernel: KernelWorkload, agents: range) -> bool:
        """Place a kernel on its nominated agent if that has room now."""
        agent = batch.nominated
        if not self._nomination_allowed(batch, kernel, agents) or not self._room(batch.shape, agent):
            return False
        self._statement.place(batch, [kernel], agent)
        return True

    def _place_many(self, batch: KernelBatch, kernels: Sequence[KernelWorkload], agents: range) -> int:
        """Fill agents in the order of their keys; equal to one by one, in array operations."""
        shape, low = batch.shape, agents.start
        keys = self._choice.keys(shape)[low : agents.stop]
        fitting = np.flatnonzero(keys >= 0)
        order = fitting[np.argsort(-keys[fitting], kind="stable")] + low
        counts = shape.fit_counts(self._workspace, order)
        filled = counts.cumsum()
        total = int(filled[-1]) if len(filled) else 0
        count = min(len(kernels), total)
        if count:
            last = int(np.searchsorted(filled, count))
            rows, taken = order[: last + 1], counts[: last + 1].copy()
            taken[-1] -= int(filled[last]) - count
            self._statement.place_many(batch, kernels[:count], rows, taken)
        if count < len(kernels):
            self.misfit = self.misfit or shape
        return count

    def _room(self, shape: Shape, agent: int) -> int:
        """How many kernels of a shape one agent can take now."""
        row = self._workspace.room[agent].tolist()
        pairs = shape.pairs_held if self._workspace.held else shape.pairs_now
        return int(max(0, min(row[column] // amount for column, amount in pairs)))

    def _allowed_by_queue(self, batch: KernelBatch, kernels: Sequence[KernelWorkload]) -> int:
        """How many of these kernels the queue admits, on top of what the statement holds."""
        count, node, queue_usage = len(kernels), self._pending.node, self._context.queue_usage
        extra = self._held_row() if self._statement.placed or self._statement.reserved else None
        pairs = batch.shape.slot_pairs
        allowed = queue_usage.room_for(node, pairs, count, extra=extra)
        if allowed < count and self.refusal is None:
            self.refusal = queue_usage.refusal(node, pairs, count, extra=extra)
        if allowed and self.refused_by_plugin is not None:
            refused = self.refused_by_plugin
            allowed = next((i for i, kernel in enumerate(kernels[:allowed]) if refused(kernel, extra)), allowed)
        return allowed

    def _held_row(self) -> list[int]:
        """The slots that the statement holds, in the order of the columns."""
        row = [0] * len(self._workspace.slots)
        held = self._statement.kernels
        counts = Counter(id(batch) for batch, _, _ in held)
        shapes = {id(batch): batch.shape for batch, _, _ in held}
        for key, count in counts.items():
            for column, amount in shapes[key].slot_pairs:
                row[column] += amount * count
        return row

    def _missing(self, counted: Sequence[TentativeKernel]) -> int:
        """How many kernels the session lacks to be ready; one, if it was ready before."""
        return max(self._pending.minimum - self._pending.have - len(counted), 0 if counted else 1)

    def _can_become_ready(self, rest: Sequence[KernelBatch]) -> bool:
        """Whether the kernels of the remaining batches could still make the session ready."""
        more = ((batch, kernel, NO_AGENT) for batch in rest for kernel in self._unused(batch))
        return self._pending.ready_with([*self._statement.kernels, *more])
