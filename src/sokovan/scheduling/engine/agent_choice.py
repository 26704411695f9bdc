"""AgentChoice: the best agent for a shape, among those that fit now or later.

Takes a shape and a range of agent rows. Gives the row of the best agent, or -1.
KeyedChoice keeps one key per agent and shape, higher is better and -1 means that the
shape does not fit. Keys are updated from the workspace's log of changed agents, so
that a choice costs as much as has changed, not as many agents as there are. From the
high bits down, a key has: own shard, few unused accelerators, the weight of the
occupancy, and a rank that is unique per agent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.workspace import Flags, Ints, Workspace
from sokovan.scheduling.snapshot import KernelWorkload

RANK_BITS = 21
_WEIGHT_BITS = 21
_PENALTY_MAX = 255
_PENALTY_SHIFT = RANK_BITS + _WEIGHT_BITS
_OWN_SHARD = 1 << (_PENALTY_SHIFT + 9)
# Up to this many changed agents are updated one by one, which is faster than by array.
_FEW = 6


class AgentChoice(Protocol):
    """Chooses an agent for the engine; -1 means that none fits."""

    fills: bool  # choosing an agent does not lower its key: equal kernels fill it
    by_shape: bool  # treats all kernels of one shape alike
    cursor: str | None

    def now(self, shape: Shape, low: int, high: int, kernel: KernelWorkload) -> int:
        """The best agent in the range that can take the shape now."""

    def later(self, shape: Shape, low: int, high: int, kernel: KernelWorkload) -> int:
        """The best agent in the range that can take the shape once room is released."""

    def keys(self, shape: Shape) -> Ints:
        """For a choice with `fills`: a key per agent, the best highest, -1 for no room."""

    def allows(self, kernel: KernelWorkload, agent: int) -> bool:
        """Whether this kernel may run on this agent, room aside."""

    def chosen(self, agent: int) -> None:
        """Record that an agent was used."""


class KeyedChoice:
    """Choice by a fixed rank and a weight by occupancy.

    `weight` maps an occupancy to 0..ONE, higher is better; it is applied to arrays and
    to single numbers.
    """

    def __init__(self, table: ShapeTable, *, rank: Ints, weight: Callable[[Any], Any], fills: bool) -> None:
        self._table, self._rank, self._weight = table, rank, weight
        self._workspace: Workspace = table.workspace
        self.fills = fills
        self.by_shape = True
        self.cursor: str | None = None

    def now(self, shape: Shape, low: int, high: int, kernel: KernelWorkload) -> int:
        """The agent with the highest key."""
        del kernel
        return _best(self.keys(shape), low, high)

    def later(self, shape: Shape, low: int, high: int, kernel: KernelWorkload) -> int:
        """The agent with the highest key among those that will have room."""
        del kernel
        return _best(self._future_keys(shape), low, high)

    def allows(self, kernel: KernelWorkload, agent: int) -> bool:
        """Always: there are no predicates besides the shape."""
        del kernel, agent
        return True

    def chosen(self, agent: int) -> None:
        """Does nothing: keys depend on the workspace only."""

    def keys(self, shape: Shape) -> Ints:
        """The current key of every agent for this shape; -1 where it does not fit now."""
        log = self._workspace.log
        keys = shape.keys
        if keys is None:
            keys = shape.keys = self._computed(shape, slice(None))
        elif shape.seen != len(log):
            changed: Collection[int] = log[-1:] if shape.seen == len(log) - 1 else set(log[shape.seen :])
            if len(changed) <= _FEW:
                pairs = shape.pairs_held if self._workspace.held else shape.pairs_now
                for agent in changed:
                    keys[agent] = self._one(shape, pairs, agent)
            elif len(changed) >= len(keys):
                keys[:] = self._computed(shape, slice(None))
            else:
                agents = np.fromiter(changed, np.int64, len(changed))
                keys[agents] = self._computed(shape, agents)
        shape.seen = len(log)
        return keys if shape.affinity is None else np.asarray(np.where(shape.allowed(), keys, -1), np.int64)

    def weighed(self, shape: Shape, agents: Ints) -> Ints:
        """The keys of agents that are known to fit."""
        return self._weighed(shape, np.ones(len(agents), bool), agents)

    def _base(self, shape: Shape) -> Ints:
        """The constant part of the key; -1 for agents that can never hold the shape."""
        if shape.base is None:
            penalty = np.minimum(self._table.penalty(shape), _PENALTY_MAX)
            base = ((_PENALTY_MAX - penalty) << _PENALTY_SHIFT) + (len(self._rank) - 1 - self._rank)
            if self._table.own is not None:
                base = base + np.where(self._table.own, _OWN_SHARD, 0)
            shape.base = np.asarray(np.where(shape.eligible, base, -1), np.int64)
        return shape.base

    def _computed(self, shape: Shape, agents: Ints | slice) -> Ints:
        workspace = self._workspace
        fits: Flags = np.asarray((workspace.room[agents][:, shape.columns] >= shape.amounts).all(axis=1))
        if workspace.held:
            fits &= (workspace.future[agents][:, shape.columns] >= shape.amounts).all(axis=1)
        if shape.blocks:
            fits &= shape.in_blocks(workspace, agents)
        return self._weighed(shape, fits, agents)

    def _future_keys(self, shape: Shape) -> Ints:
        many, one = partial(self._computed_later, shape), partial(self._one, shape, shape.pairs_later)
        keys = shape.future_keys.updated(self._workspace.log, many, one)
        return keys if shape.affinity is None else np.asarray(np.where(shape.allowed(), keys, -1), np.int64)

    def _computed_later(self, shape: Shape, agents: Ints | slice) -> Ints:
        fits: Flags = np.asarray((self._workspace.future[agents][:, shape.columns] >= shape.amounts).all(axis=1))
        if shape.blocks:
            fits &= shape.in_blocks(self._workspace, agents)
        return self._weighed(shape, fits, agents)

    def _weighed(self, shape: Shape, fits: Flags, agents: Ints | slice) -> Ints:
        base = self._base(shape)[agents]
        weights = self._weight(self._workspace.occupancy[agents]) << RANK_BITS
        return np.asarray(np.where(fits & (base >= 0), base + weights, -1), np.int64)

    def _one(self, shape: Shape, pairs: Sequence[tuple[int, int]], agent: int) -> int:
        """The key of an agent that has these amounts; -1 for another."""
        base = self._base(shape).item(agent)
        if base < 0:
            return -1
        row = self._workspace.room[agent].tolist()
        for column, amount in pairs:
            if row[column] < amount:
                return -1
        return base + (int(self._weight(self._workspace.occupancy.item(agent))) << RANK_BITS)


def _best(keys: Ints, low: int, high: int) -> int:
    """The row with the highest key of a range; -1 if none fits."""
    if high <= low:
        return -1
    if high - low != len(keys):
        keys = keys[low:high]
    best = int(keys.argmax())
    return low + best if keys.item(best) >= 0 else -1
