"""A run of tentative steps: keep it whole, or leave no trace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.workspace import Ints, Workspace


class Operation(NamedTuple):
    """One change: `kind` of `count` kernels of a shape on one agent or on many."""

    kind: str
    shape: Shape
    agents: int | Ints
    counts: int | Ints


class Statement:
    """Steps on a workspace that can be taken back, exactly, to any checkpoint."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._steps: list[Operation] = []

    def place(self, shape: Shape, agent: int, count: int = 1) -> None:
        """Take room for `count` equal kernels on one agent."""
        self._workspace.take(agent, shape.both if count == 1 else shape.both * count)
        self._steps.append(Operation("place", shape, agent, count))

    def place_many(self, shape: Shape, agents: Ints, counts: Ints) -> None:
        """Take room for equal kernels on many agents at once."""
        self._workspace.take_many(agents, shape.both, counts)
        self._steps.append(Operation("place", shape, agents, counts))

    def reserve(self, shape: Shape, agent: int) -> None:
        """Hold what is being released on an agent; nothing starts yet."""
        self._workspace.hold(agent, shape.later, 1)
        self._steps.append(Operation("reserve", shape, agent, 1))

    def evict(self, shape: Shape, agent: int) -> None:
        """Count a running kernel as being on its way out."""
        self._workspace.free_soon(agent, shape.later)
        self._steps.append(Operation("evict", shape, agent, 1))

    def checkpoint(self) -> int:
        """A point to come back to."""
        return len(self._steps)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo every step since the checkpoint, last one first."""
        while len(self._steps) > checkpoint:
            kind, shape, agents, counts = self._steps.pop()
            if isinstance(agents, np.ndarray):
                self._workspace.take_many(agents, -shape.both, np.asarray(counts))
            elif kind == "place":
                self._workspace.take(agents, shape.both * -counts)
            elif kind == "reserve":
                self._workspace.hold(agents, -shape.later, -1)
            else:
                self._workspace.free_soon(agents, -shape.later)

    def commit(self) -> tuple[Operation, ...]:
        """Keep everything; a rollback afterwards does nothing."""
        steps, self._steps = tuple(self._steps), []
        return steps
