"""Statement: tentative placements on the workspace, committed or rolled back.

Takes kernels and the agents chosen for them. Gives the lists `placed` and
`reserved`, with the room they need taken from the workspace. `attempt` checkpoints, tries
and rolls back one Statement; TrialChanges rolls back a trial, which may have several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from sokovan.scheduling.engine.agent_choice import AgentChoice
from sokovan.scheduling.engine.pending_session import KernelBatch, TentativeKernel
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.workspace import Ints, Workspace
from sokovan.scheduling.snapshot import KernelWorkload


class StatementOperation(NamedTuple):
    """One change: `kind` of `count` kernels of a shape on one agent or on many.

    `cursor` is the round-robin cursor before the change.
    """

    kind: str
    shape: Shape
    agents: int | Ints
    counts: int | Ints
    cursor: str | None


class Statement:
    """Tentative changes to a workspace that can be undone to any checkpoint."""

    def __init__(self, workspace: Workspace, choice: AgentChoice) -> None:
        self._workspace, self._choice = workspace, choice
        self._operations: list[StatementOperation] = []
        self.placed: list[TentativeKernel] = []
        self.reserved: list[TentativeKernel] = []

    @property
    def kernels(self) -> list[TentativeKernel]:
        """The kernels placed or reserved so far."""
        return [*self.placed, *self.reserved]

    def shape_counts(self) -> dict[Shape, int]:
        """How many kernels of each shape are placed or reserved."""
        shapes: dict[Shape, int] = {}
        for kind, shape, _, counts, _ in self._operations:
            if kind != "evict":
                count = int(counts.sum()) if isinstance(counts, np.ndarray) else counts
                shapes[shape] = shapes.get(shape, 0) + count
        return shapes

    def attempt(self, step: Callable[[], bool]) -> bool:
        """Checkpoint, run `step`, and roll back unless it returns True.

        Attempts nest: a session, a HyperNode inside it, a kernel group inside that.
        An exception rolls back as well.
        """
        checkpoint = self.checkpoint()
        kept = False
        try:
            kept = step()
        finally:
            if not kept:
                self.rollback(checkpoint)
        return kept

    def place(self, batch: KernelBatch, kernels: Sequence[KernelWorkload], agent: int) -> None:
        """Take room for equal kernels on one agent."""
        shape, count = batch.shape, len(kernels)
        self._workspace.take(agent, shape.both if count == 1 else shape.both * count)
        shape.count_placed(agent, count)
        self._operations.append(StatementOperation("place", shape, agent, count, self._choice.cursor))
        self._choice.chosen(agent)
        self.placed.extend([(batch, kernel, agent) for kernel in kernels])

    def place_many(self, batch: KernelBatch, kernels: Sequence[KernelWorkload], agents: Ints, counts: Ints) -> None:
        """Take room for equal kernels on many agents at once, `counts` on each."""
        self._workspace.take_many(agents, batch.shape.both, counts)
        _count_many(batch.shape, agents, counts)
        self._operations.append(StatementOperation("place", batch.shape, agents, counts, self._choice.cursor))
        spread = np.repeat(agents, counts).tolist()
        self.placed.extend([(batch, kernel, agent) for kernel, agent in zip(kernels, spread, strict=True)])

    def reserve(self, batch: KernelBatch, kernel: KernelWorkload, agent: int) -> None:
        """Hold room that is being released on an agent; the kernel does not start yet."""
        self._workspace.hold(agent, batch.shape.later, 1)
        batch.shape.count_placed(agent, 1)
        self._operations.append(StatementOperation("reserve", batch.shape, agent, 1, self._choice.cursor))
        self._choice.chosen(agent)
        self.reserved.append((batch, kernel, agent))

    def evict(self, shape: Shape, agent: int) -> None:
        """Count a running kernel as being released; on an unknown agent, nothing is."""
        if agent >= 0:
            self._workspace.free_soon(agent, shape.released)
            shape.count_placed(agent, -1)
        self._operations.append(StatementOperation("evict", shape, agent, 1, self._choice.cursor))

    def checkpoint(self) -> int:
        """The number of operations so far; 0 if nothing is tentative."""
        return len(self._operations)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo every operation since the checkpoint, last one first."""
        while len(self._operations) > checkpoint:
            kind, shape, agents, counts, cursor = self._operations.pop()
            if isinstance(agents, np.ndarray):
                self._workspace.take_many(agents, -shape.both, np.asarray(counts))
                _count_many(shape, agents, -np.asarray(counts))
                del self.placed[len(self.placed) - int(np.sum(counts)) :]
            elif kind == "place":
                self._workspace.take(agents, shape.both * -counts)
                shape.count_placed(agents, -int(counts))
                del self.placed[len(self.placed) - int(counts) :]
            elif kind == "reserve":
                self._workspace.hold(agents, -shape.later, -1)
                shape.count_placed(agents, -1)
                self.reserved.pop()
            elif agents >= 0:
                self._workspace.free_soon(agents, -shape.released)
                shape.count_placed(agents, 1)
            self._choice.cursor = cursor

    def commit(self) -> tuple[StatementOperation, ...]:
        """Keep everything; a later rollback undoes nothing."""
        operations, self._operations = tuple(self._operations), []
        return operations


class TrialChanges:
    """The Statements of one trial and other changes; `kept`, or undone at its end."""

    def __init__(self, workspace: Workspace, choice: AgentChoice) -> None:
        self._workspace, self._choice = workspace, choice
        self._undo: list[Callable[[], None]] = []
        self.kept = False

    def statement(self) -> Statement:
        """A Statement that is rolled back with the trial."""
        statement = Statement(self._workspace, self._choice)
        self._undo.append(statement.rollback)
        return statement

    def undo_with(self, undo: Callable[[], None]) -> None:
        """Call `undo` if the trial is not kept, after all that follows was undone."""
        self._undo.append(undo)

    def roll_back(self) -> None:
        """Undo everything, last one first."""
        for undo in reversed(self._undo):
            undo()


def _count_many(shape: Shape, agents: Ints, counts: Ints) -> None:
    if shape.affinity is not None:
        for agent, count in zip(agents.tolist(), counts.tolist(), strict=True):
            shape.count_placed(agent, count)
