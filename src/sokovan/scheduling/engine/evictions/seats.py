"""SeatCounter: how many kernels of a taker the agents could hold with rows gone.

Takes the taker and the VictimTable. Gives a necessary condition by columns, before a
Statement is built: every shape that the taker needs has enough seats in an allowed
HyperNode, and the queues above it have what they lack. For a taker of one shape without
further constraints (`tight`) the condition is sufficient as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from sokovan.domain.cluster.topology import ROOT
from sokovan.scheduling.engine.evictions.rules import EvictionRules
from sokovan.scheduling.engine.evictions.victims import VictimTable, distinct
from sokovan.scheduling.engine.gang import CycleContext
from sokovan.scheduling.engine.pending_session import NO_AGENT, PendingSession
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.topology_search import Tier
from sokovan.scheduling.engine.workspace import ONE, ONE_BITS, Flags, Ints


class SeatCounter:
    """Seats of one taker by agent and HyperNode."""

    def __init__(
        self, context: CycleContext, pending: PendingSession, rules: EvictionRules, table: VictimTable
    ) -> None:
        self._workspace, self._table = context.workspace, table
        self.tiers = self._tiers(context, pending)
        # Whether any agents will do, wherever they are.
        self.anywhere = len(self.tiers) == 1 == len(self.tiers[0].names)
        session = pending.session
        bound = session.topology is not None and bool(self.tiers)
        self.lowest_tier = context.workspace.tree.tier(self.tiers[0].names[0]) if bound else 0
        shapes = {batch.shape for batch in pending.batches}
        constrained = bool(
            session.group_minimums or pending.kernel_groups or pending.best_effort or context.custom_plugins
        )
        nominated = any(batch.nominated != NO_AGENT for batch in pending.batches)
        near = any(shape.affinity is not None for shape in shapes)
        timed = any(shape.blocks for shape in shapes)
        self.tight = len(shapes) == 1 and not constrained and not near and not nominated and not timed
        # Which kernels an elastic session of several shapes takes, only the placement shows; affinity may change.
        whole = not constrained and not near and (len(shapes) == 1 or pending.need() >= pending.waiting)
        self.demand: Sequence[tuple[Shape, int]] = rules.demand if whole else ()
        self.shortage = rules.queue_shortage() if whole else {}
        self._short_columns = {name: np.array(row, np.int64) for name, row in self.shortage.items()}
        self._below: dict[str, Flags] = {}
        self._base = {shape: shape.future_seats(self._workspace) for shape, _ in self.demand}
        self.base_rows = self._workspace.future

    def _tiers(self, context: CycleContext, pending: PendingSession) -> list[Tier]:
        """The HyperNodes that the taker may come to, lowest tier first."""
        if pending.session.topology is None:
            return [context.topology.root()]
        limit = context.topology.tier_limit(pending.session.topology)
        return context.topology.tiers(limit, inside=ROOT, agents=pending.agents)

    def base(self, shape: Shape) -> Ints:
        """How many kernels of a shape each agent will hold with nothing evicted."""
        return self._base[shape]

    @property
    def table(self) -> VictimTable:
        """The rows that may be gone."""
        return self._table

    def allowed(self, shape: Shape) -> Flags:
        """The agents that may hold a shape."""
        return shape.allowed()

    def enough(self, rows: Sequence[int] | Ints) -> bool:
        """Whether the seats and the queues would be enough with these rows gone."""
        given = np.asarray(rows, np.int64)
        return self.queues_have(given) and any(fits.any() for fits in self.domains(given))

    def domains(self, rows: Ints) -> list[Flags]:
        """For each tier, which of its HyperNodes would hold the taker."""
        fitting = [np.ones(len(tier.names), bool) for tier in self.tiers]
        for shape, count in self.demand:
            seats = self.seats(shape, rows)
            prefix = np.concatenate(([0], seats.cumsum()))
            for number, tier in enumerate(self.tiers):
                fitting[number] &= prefix[tier.highs] - prefix[tier.lows] >= count
        return fitting

    def seats(self, shape: Shape, rows: Ints) -> Ints:
        """How many kernels of a shape each agent would hold with these rows gone."""
        on = rows[self._table.agent[rows] >= 0]
        agents = distinct(self._table.agent[on])
        more = np.zeros((len(agents), self._workspace.width), np.int64)
        np.add.at(more, np.searchsorted(agents, self._table.agent[on]), self._table.released[on])
        seats = self._base[shape].copy()
        seats[agents] = shape.counts_with(self._workspace, agents, more)
        return seats

    def enough_in(self, rows: Ints, agents: range) -> bool:
        """Whether the seats on these agents, and the queues, would be enough."""
        seats = all(
            int(self.seats(shape, rows)[agents.start : agents.stop].sum()) >= count for shape, count in self.demand
        )
        return seats and self.queues_have(rows)

    def running(self, shape: Shape, rows: Ints, first: Flags) -> Ints:
        """The seats of each row's agent once it is gone.

        The rows are sorted by agent, `first` are the first ones on each; those before it on the agent are gone as well.
        """
        agents, released = self._table.agent[rows], self._table.released[rows]
        total = released.cumsum(axis=0)
        starts = first.nonzero()[0][first.cumsum() - 1] if len(rows) else np.zeros(0, np.int64)
        more = total - total[starts] + released[starts]
        return shape.counts_with(self._workspace, agents, more)

    def weights(self, rows: Ints) -> Ints:
        """How much of what the taker asks for each row releases, in shares of a kernel."""
        return self._shape_weights[self._table.shape[rows]]

    def weigh_alike(self, rows: Ints) -> bool:
        """Whether each row releases as much of what the taker asks for as the others."""
        weights = self._shape_weights
        return bool((weights == weights[0]).all()) or len(distinct(weights[self._table.shape[rows]])) <= 1

    @cached_property
    def _shape_weights(self) -> Ints:
        """The weight of a row of each shape of the table."""
        weights: Ints = np.zeros(len(self._table.shapes), np.int64)
        for shape, _ in self.demand:
            weights = weights + self._weights_for(shape)
        return weights

    def _weights_for(self, asked: Shape) -> Ints:
        """The weights by what one shape asks for, made by the first taker of it."""
        known = self._table.weights
        if asked not in known:
            # Both sides are shifted alike, so that the product with ONE stays inside 63 bits.
            shift = max(0, int(asked.amounts.max(initial=1)).bit_length() - 40)
            released = self._table.shape_released[:, asked.columns] >> shift
            shares = (released << ONE_BITS) // np.maximum(asked.amounts >> shift, 1)
            known[asked] = np.asarray(shares.min(axis=1, initial=ONE << 20), np.int64)
        return known[asked]

    def queues_have(self, rows: Ints) -> bool:
        """Whether these rows release what the queues above the taker lack."""
        return all((self.released_below(name, rows) >= lacking).all() for name, lacking in self._short_columns.items())

    def released_below(self, name: str, rows: Ints) -> Ints:
        """The amounts that these rows release in a queue and those below it."""
        if name not in self._below:
            below = [any(node.name == name for node in one.limiting_queues) for one in self._table.queues]
            self._below[name] = np.array(below, bool)
        inside = rows[self._below[name][self._table.queue[rows]]]
        return np.asarray(self._table.released[inside][:, : self._workspace.slot_count].sum(axis=0), np.int64)


class SeatLedger:
    """The seats of a taker of one shape with a set gone, updated row by row."""

    def __init__(self, seats: SeatCounter, rows: Sequence[int], agents: range) -> None:
        self._table = seats.table
        [(self._shape, need)] = seats.demand
        self._allowed = seats.allowed(self._shape)
        self._agents = agents
        self._room: dict[int, list[int]] = {}
        for agent in {int(self._table.agent[row]) for row in rows}:
            if agent in agents:
                self._room[agent] = seats.base_rows[agent].tolist()
        self._spare = int(seats.base(self._shape)[agents.start : agents.stop].sum()) - need
        # The surplus of each queue above the taker, and which of them each queue is below.
        self._queues = [[-amount for amount in lacking] for lacking in seats.shortage.values()]
        self._above: list[list[int]] = [
            [number for number, name in enumerate(seats.shortage) if name in [n.name for n in one.limiting_queues]]
            for one in (self._table.queues if seats.shortage else ())
        ]
        self.give(rows)

    def give(self, rows: Sequence[int]) -> None:
        """Count these rows as gone."""
        self._change(rows, 1)

    def take_back(self, rows: Sequence[int]) -> bool:
        """Count these rows as running again, if the seats are still enough."""
        self._change(rows, -1)
        if self._spare >= 0 and all(min(spare) >= 0 for spare in self._queues):
            return True
        self._change(rows, 1)
        return False

    def _change(self, rows: Sequence[int], times: int) -> None:
        for row in rows:
            released = self._table.released[row].tolist()
            for number in self._above[int(self._table.queue[row])] if self._above else ():
                spare = self._queues[number]
                spare[:] = [n + amount * times for n, amount in zip(spare, released, strict=False)]
            agent = int(self._table.agent[row])
            room = self._room.get(agent)
            if room is None:
                continue
            before = self._seats_on(agent, room)
            for column, amount in enumerate(released):
                room[column] += amount * times
            self._spare += self._seats_on(agent, room) - before

    def _seats_on(self, agent: int, room: list[int]) -> int:
        if not self._allowed[agent]:
            return 0
        return int(max(0, min(room[column] // amount for column, amount in self._shape.pairs)))
