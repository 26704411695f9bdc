"""Placing the kernels of one session: enough of them together, or none.

A trial places kernels tentatively on the workspace and can go back to any earlier
point. Kernels are taken in their order; those that fit nowhere are passed over as
long as the rest could still be enough (NeedContinueAllocating).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sokovan.scheduling.engine.agent_choice import AgentChoice
from sokovan.scheduling.engine.pending_session import NOBODY, KernelBatch, PendingSession
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.usage.queue_usage import QueueRefusal, QueueUsage
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.snapshot import KernelWorkload

# From this many equal kernels on, all agents are filled in one array operation.
_MANY = 32


class Span(NamedTuple):
    """The agents under one HyperNode."""

    low: int
    high: int


class Mark(NamedTuple):
    """A point in a trial to come back to."""

    checkpoint: int
    placed: int
    reserved: int
    cursor: str | None


class Trial:
    """The tentative placement of one session in one turn."""

    def __init__(self, job: PendingSession, workspace: Workspace, choice: AgentChoice, book: QueueUsage) -> None:
        self.job, self.workspace, self.choice, self.book = job, workspace, choice, book
        self.statement = Statement(workspace)
        self.placed: list[tuple[KernelBatch, KernelWorkload, int]] = []
        self.reserved: list[tuple[KernelBatch, KernelWorkload, int]] = []
        self.refusal: QueueRefusal | None = None
        self.short: Shape | None = None  # the first shape that found no room
        self.may_reserve = True
        # Shapes that found no room on any agent while nothing was placed tentatively: room only shrinks in a cycle.
        self.misfits: set[Shape] | None = None
        # What a plugin has against one more kernel in the queue, on top of what this trial holds.
        self.opposed: Callable[[KernelWorkload, list[int] | None], bool] | None = None

    def mark(self) -> Mark:
        """A point to come back to."""
        return Mark(self.statement.checkpoint(), len(self.placed), len(self.reserved), self.choice.cursor)

    def back(self, mark: Mark) -> None:
        """Undo everything since the mark."""
        self.statement.rollback(mark.checkpoint)
        del self.placed[mark.placed :]
        del self.reserved[mark.reserved :]
        self.choice.cursor = mark.cursor

    def ready(self) -> bool:
        """Whether the session would run with what is placed."""
        return self._enough(self.placed)

    def hoped(self) -> bool:
        """Whether the session would run once what is reserved is released."""
        return self._enough([*self.placed, *self.reserved])

    def fill(self, runs: list[KernelBatch], span: Span) -> None:
        """Place kernels in their order until the session is ready, or cannot be.

        Groups that have a minimum get it first, so that the surplus of one does not
        take the room that another needs.
        """
        if self.job.session.group_minimums and not self._fill_groups(runs, span):
            return
        for position, run in enumerate(runs):
            kernels = self._unused(run)[: self._missing(self.placed)]
            if not kernels:
                continue
            got = self._fill_run(run, kernels, span)
            if got < len(kernels) and not self._can_go_on(runs[position + 1 :]):
                return
            if got and self.ready():
                return

    def _fill_groups(self, runs: list[KernelBatch], span: Span) -> bool:
        """Place the minimum of every group; False if one cannot have it."""
        for group, least in sorted(self.job.session.group_minimums.items()):
            lacking = least - self.job.group_have[group]
            for run in runs:
                if run.group == group and lacking > 0:
                    lacking -= self._fill_run(run, run.kernels[:lacking], span, whole=True)
            if lacking > 0:
                return False
        return True

    def _fill_run(self, run: KernelBatch, kernels: list[KernelWorkload], span: Span, *, whole: bool = False) -> int:
        """Place these kernels now, and reserve for the others as far as that is of use."""
        allowed = self._allowed(run, kernels)
        got = self.place(run, kernels[:allowed], span)
        if got < allowed and self.may_reserve:
            useful = allowed if whole else min(allowed, got + self._missing([*self.placed, *self.reserved]))
            got += self.reserve(run, kernels[got:useful], span)
        return got

    def _unused(self, run: KernelBatch) -> list[KernelWorkload]:
        """The kernels of a run that this trial has not placed or reserved for yet."""
        if not self.job.session.group_minimums:
            return run.kernels
        used = sum(1 for other, _, _ in (*self.placed, *self.reserved) if other is run)
        return run.kernels[used:]

    def fill_exactly(self, runs: list[KernelBatch], count: int, span: Span) -> bool:
        """Place `count` kernels of these runs; False (with some placed) if it fails."""
        for run in runs:
            count -= self._fill_run(run, run.kernels[:count], span, whole=True)
            if not count:
                return True
        return False

    def place(self, run: KernelBatch, kernels: list[KernelWorkload], span: Span) -> int:
        """Place as many of these equal kernels as there is room for now."""
        if not kernels:
            return 0
        if run.nominated != NOBODY and self._place_nominated(run, kernels[0], span):
            return 1
        if self.misfits is not None and run.shape in self.misfits:
            self.short = self.short or run.shape
            return 0
        if self.choice.fills and len(kernels) >= _MANY:
            return self._place_many(run, kernels, span)
        got, shape, choice = 0, run.shape, self.choice
        while got < len(kernels):
            agent = choice.now(shape, span.low, span.high, kernels[got])
            if agent < 0:
                self._remember_misfit(shape, span)
                break
            count = min(len(kernels) - got, self._room(shape, agent)) if choice.fills and len(kernels) > 1 else 1
            self.statement.place(shape, agent, count)
            choice.chosen(agent)
            self.placed.extend((run, kernel, agent) for kernel in kernels[got : got + count])
            got += count
        return got

    def _remember_misfit(self, shape: Shape, span: Span) -> None:
        self.short = self.short or shape
        everywhere = span.low == 0 and span.high == len(self.workspace.ids)
        if self.misfits is not None and everywhere and not self.statement.checkpoint():
            self.misfits.add(shape)

    def reserve(self, run: KernelBatch, kernels: list[KernelWorkload], span: Span) -> int:
        """Hold room that is being released for as many of these kernels as fit."""
        if not self.workspace.releases:
            return 0
        got = 0
        for kernel in kernels:
            agent = self._later(run, kernel, span)
            if agent < 0:
                break
            self.statement.reserve(run.shape, agent)
            self.choice.chosen(agent)
            self.reserved.append((run, kernel, agent))
            got += 1
        return got

    def _later(self, run: KernelBatch, kernel: KernelWorkload, span: Span) -> int:
        place = run.nominated
        if self._nominable(run, kernel, span):
            room = self.workspace.future[place][run.shape.columns]
            if (room >= run.shape.amounts).all():
                return place
        return self.choice.later(run.shape, span.low, span.high, kernel)

    def _nominable(self, run: KernelBatch, kernel: KernelWorkload, span: Span) -> bool:
        """Whether the nominated agent may be used at all: inside the span, and nothing but room against it."""
        agent = run.nominated
        inside = agent != NOBODY and span.low <= agent < span.high
        return inside and bool(run.shape.eligible[agent]) and self.choice.allows(kernel, agent)

    def _place_nominated(self, run: KernelBatch, kernel: KernelWorkload, span: Span) -> bool:
        """The nominated agent is tried first, where it fits now."""
        agent = run.nominated
        if not self._nominable(run, kernel, span) or not self._room(run.shape, agent):
            return False
        self.statement.place(run.shape, agent)
        self.choice.chosen(agent)
        self.placed.append((run, kernel, agent))
        return True

    def _place_many(self, run: KernelBatch, kernels: list[KernelWorkload], span: Span) -> int:
        """Fill agents in the order of their keys; the same answer as one by one, in array operations."""
        shape, low = run.shape, span.low
        keys = self.choice.keys(shape)[low : span.high]
        fitting = np.flatnonzero(keys >= 0)
        order = fitting[np.argsort(-keys[fitting], kind="stable")] + low
        counts = shape.fit_counts(self.workspace, order)
        filled = counts.cumsum()
        total = int(filled[-1]) if len(filled) else 0
        wanted = min(len(kernels), total)
        if wanted:
            last = int(np.searchsorted(filled, wanted))
            agents, taken = order[: last + 1], counts[: last + 1].copy()
            taken[-1] -= int(filled[last]) - wanted
            self.statement.place_many(shape, agents, taken)
            spread = np.repeat(agents, taken).tolist()
            self.placed.extend((run, kernel, agent) for kernel, agent in zip(kernels, spread, strict=False))
        if wanted < len(kernels):
            self.short = self.short or shape
        return wanted

    def _room(self, shape: Shape, agent: int) -> int:
        """How many kernels of a shape one agent can take now."""
        row = self.workspace.room[agent].tolist()
        pairs = shape.pairs_held if self.workspace.held else shape.pairs
        return int(max(0, min(row[column] // amount for column, amount in pairs)))

    def _allowed(self, run: KernelBatch, kernels: list[KernelWorkload]) -> int:
        """How many of these kernels the queue lets in, on top of what this trial holds."""
        count = len(kernels)
        extra = self._held_row() if self.placed or self.reserved else None
        pairs = run.shape.slot_pairs
        allowed = self.book.room_for(self.job.node, pairs, count, extra=extra)
        if allowed < count and self.refusal is None:
            self.refusal = self.book.refusal(self.job.node, pairs, count, extra=extra)
        if allowed and self.opposed is not None:
            allowed = next((i for i, k in enumerate(kernels[:allowed]) if self.opposed(k, extra)), allowed)
        return allowed

    def _held_row(self) -> list[int]:
        row = [0] * len(self.workspace.slots)
        counts = Counter(id(run) for run, _, _ in (*self.placed, *self.reserved))
        shapes = {id(run): run.shape for run, _, _ in (*self.placed, *self.reserved)}
        for key, count in counts.items():
            for column, amount in shapes[key].slot_pairs:
                row[column] += amount * count
        return row

    def _enough(self, kernels: list[tuple[KernelBatch, KernelWorkload, int]]) -> bool:
        job = self.job
        if job.best_effort:
            # Those that ask for nothing were counted from the beginning.
            kernels = [entry for entry in kernels if not entry[0].best_effort]
        if job.have + len(kernels) < job.minimum:
            return False
        if not job.session.group_minimums and not job.parts:
            return True
        return job.ready(len(kernels), Counter(r.group for r, _, _ in kernels), Counter(r.part for r, _, _ in kernels))

    def _missing(self, counted: list[tuple[KernelBatch, KernelWorkload, int]]) -> int:
        """How many kernels are of use until the session is ready; one, if it was ready before."""
        return max(self.job.minimum - self.job.have - len(counted), 0 if counted else 1)

    def _can_go_on(self, rest: list[KernelBatch]) -> bool:
        """Whether the kernels of the runs to come could still make the session ready."""
        more = ((run, kernel, NOBODY) for run in rest for kernel in self._unused(run))
        return self._enough([*self.placed, *self.reserved, *more])
