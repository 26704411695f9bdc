"""ManyCandidates: proposes sets of victims by columns.

Takes the candidates of one taker. Gives, for the cheapest HyperNodes, sets that are enough.
The candidates are put in an order: surplus kernels, then whole gangs as bundles, each by
what it costs. The shortest prefix that is enough is reduced to the rows that gain a seat,
made legal, and reprieved, dearest first, until nothing can be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sokovan.scheduling.engine.evictions.order import UnitOrder
from sokovan.scheduling.engine.evictions.reprieve import Reprieve
from sokovan.scheduling.engine.evictions.taker import Taker
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.workspace import Ints

# HyperNodes that are tried, cheapest first.
DOMAINS_MAX = 4
# Rows at the beginning of an order that are looked at first, and how many times as many next.
FIRST_ROWS = 64
MORE = 8


class Steps(NamedTuple):
    """The rows of an order with which an agent gains seats, by agent and position."""

    rows: Ints
    positions: Ints
    gains: Ints
    units: int  # of the order


class ManyCandidates:
    """Proposes sets of victims for one taker."""

    def __init__(self, taker: Taker) -> None:
        self._taker = taker
        self._rules, self._table, self._seats, self._fits, self._proved_later = taker
        self._first_rows = FIRST_ROWS

    def proposals(self) -> Iterator[list[int]]:
        """Sets that are enough, one by each order of the candidates."""
        # Where all release the same, there is only one order.
        alike = self._proved_later or self._seats.weigh_alike(self._rules.candidates)
        for largest_first in (False,) if alike else (False, True):
            for agents in self._cheapest_domains(largest_first=largest_first):
                rows = self._in_domain(agents, largest_first=largest_first)
                if rows is not None:
                    yield rows
                    break

    def _cheapest_domains(self, *, largest_first: bool) -> list[range]:
        """The agents of the HyperNodes that could hold the taker, by the last unit that each would need."""
        everything = range(len(self._seats.base_rows))
        if not self._seats.demand or self._seats.anywhere:
            return [everything]
        order = UnitOrder(self._taker, self._rules.candidates, largest_first=largest_first)
        demand = [(shape, count, self._steps(shape, order)) for shape, count in self._seats.demand]
        priced = []
        for number, tier in enumerate(self._seats.tiers):
            prices = np.max([self._prices(shape, count, steps, number) for shape, count, steps in demand], axis=0)
            for index in np.flatnonzero(prices < order.units):
                low, high = int(tier.lows[index]), int(tier.highs[index])
                priced.append((int(prices[index]), number, tier.names[index], range(low, high)))
        return [agents for *_, agents in sorted(priced, key=lambda item: item[:3])[:DOMAINS_MAX]]

    def _prices(self, shape: Shape, count: int, steps: Steps, number: int) -> Ints:
        """For each HyperNode of a tier, the position of the unit with which it has enough seats."""
        tier, base = self._seats.tiers[number], self._seats.base(shape)
        rows, positions, gains, units = steps
        prefix = np.concatenate(([0], base.cumsum()))
        lacking = count - (prefix[tier.highs] - prefix[tier.lows])
        by_low = np.argsort(tier.lows, kind="stable")
        agents = self._table.agent[rows]
        slot = np.searchsorted(tier.lows[by_low], agents, side="right") - 1
        domain = by_low[np.maximum(slot, 0)]
        inside = (slot >= 0) & (agents < tier.highs[domain])
        domain, positions, gains = domain[inside], positions[inside], gains[inside]
        sort = np.lexsort((positions, domain))
        domain, positions, gains = domain[sort], positions[sort], gains[sort]
        prices = np.full(len(tier.names), units, np.int64)
        total = gains.cumsum()
        starts = np.searchsorted(domain, np.arange(len(tier.names)), side="left")
        before = np.concatenate(([0], total))[starts]
        enough = np.flatnonzero(total - before[domain] >= lacking[domain])
        # The first step that is enough for its HyperNode.
        np.minimum.at(prices, domain[enough], positions[enough])
        prices[lacking <= 0] = -1
        return prices

    def _steps(self, shape: Shape, order: UnitOrder) -> Steps:
        """The rows with which an agent gains seats of a shape."""
        rows, positions = order.rows, order.positions
        if not self._table.placed:
            keep = self._table.agent[rows] >= 0
            rows, positions = rows[keep], positions[keep]
        # Positions rise, so that they do on each agent as well.
        sort = self._table.agent[rows].argsort(kind="stable")
        rows, positions = rows[sort], positions[sort]
        agents = self._table.agent[rows]
        first = np.ones(len(rows), bool)
        first[1:] = agents[1:] != agents[:-1]
        seats = self._seats.running(shape, rows, first)
        before = np.zeros(len(rows), np.int64)
        before[1:] = seats[:-1]
        before[first] = self._seats.base(shape)[agents[first]]
        gains = seats - before
        gained = gains > 0
        return Steps(rows[gained], positions[gained], gains[gained], order.units)

    def _in_domain(self, agents: range, *, largest_first: bool) -> list[int] | None:
        """A set that is enough with the taker on these agents."""
        found = self._first_that_is_enough(self._rows_for(agents), agents, largest_first=largest_first)
        if found is None:
            return None
        order, last = found
        chosen, prefix = self._needed(order, last, agents), order.upto(last)
        victims = self._whole(chosen, order)
        if len(chosen) < len(prefix) and not self._holds(victims, agents):
            victims = self._whole(prefix, order)
        kept = Reprieve(self._taker, agents).run(victims, order)
        return kept if kept and self._rules.leaves_shares(kept) else None

    def _rows_for(self, agents: range) -> Ints:
        """The candidates on these agents, or all if the queues above the taker lack more than those release."""
        table, candidates = self._table, self._rules.candidates
        if table.placed and len(agents) == len(self._seats.base_rows):
            return candidates
        inside = candidates[(table.agent[candidates] >= agents.start) & (table.agent[candidates] < agents.stop)]
        return inside if len(inside) < len(candidates) and self._seats.queues_have(inside) else candidates

    def _first_that_is_enough(self, rows: Ints, agents: range, *, largest_first: bool) -> tuple[UnitOrder, int] | None:
        """An order, and the position of the last unit of its shortest prefix that is enough.

        Where the columns decide, the beginning of the order is made first: few units are usually enough.
        """
        first = self._first_rows if self._seats.tight and not self._seats.shortage else len(rows)
        while True:
            order = UnitOrder(self._taker, rows, largest_first=largest_first, first=first)
            last = self._shortest_prefix(order, agents)
            if last is not None:
                return order, last
            if order.complete or not self._seats.enough(self._rules.candidates):
                return None
            first = self._first_rows = first * MORE

    def _holds(self, rows: Sequence[int], agents: range) -> bool:
        """Whether a set is enough: by columns, and by a trial where these do not decide."""
        if not self._seats.enough_in(np.array(rows, np.int64), agents):
            return False
        return self._seats.tight or self._fits(rows) is not None

    def _shortest_prefix(self, order: UnitOrder, agents: range) -> int | None:
        """The position of the last unit of the shortest prefix that is enough."""
        if self._seats.tight:
            last = self._first_position_with_seats(order, agents)
            if last is None or self._seats.queues_have(order.upto(last)):
                return last
        low, high = 0, order.units - 1
        if high < 0 or not self._holds(self._whole(order.upto(high), order), agents):
            return None
        while low < high:
            middle = (low + high) // 2
            if self._holds(self._whole(order.upto(middle), order), agents):
                high = middle
            else:
                low = middle + 1
        return low

    def _first_position_with_seats(self, order: UnitOrder, agents: range) -> int | None:
        """The position of the unit with which these agents have enough seats for one shape."""
        [(shape, count)] = self._seats.demand
        lacking = count - int(self._seats.base(shape)[agents.start : agents.stop].sum())
        rows, positions, gains, _ = self._steps(shape, order)
        if len(agents) < len(self._seats.base_rows):
            inside = (self._table.agent[rows] >= agents.start) & (self._table.agent[rows] < agents.stop)
            positions, gains = positions[inside], gains[inside]
        sort = positions.argsort(kind="stable")
        enough = (gains[sort].cumsum() >= lacking).nonzero()[0]
        return int(positions[sort][enough[0]]) if len(enough) else None

    def _needed(self, order: UnitOrder, last: int, agents: range) -> Ints:
        """The rows of a prefix in units with which an agent gains a seat, or a queue what it lacks."""
        if not self._seats.demand or (self._seats.tight and not last):
            return order.upto(last)
        table = self._table
        first = order.beginning(last + 1)
        rows, positions = first.rows, first.positions
        needed = np.zeros(last + 1, bool)
        for shape, _ in self._seats.demand:
            gained_rows, gained_at, *_ = self._steps(shape, first)
            # All rows of an agent up to its last gain are needed for it.
            until = np.full(len(self._seats.base_rows), -1, np.int64)
            np.maximum.at(until, table.agent[gained_rows], gained_at)
            agent = table.agent[rows]
            useful = (agent >= agents.start) & (agent < agents.stop) & (positions <= until[agent])
            needed[positions[useful]] = True
        chosen = rows[needed[positions]]
        return chosen if self._seats.queues_have(chosen) else rows

    def _whole(self, rows: Ints, order: UnitOrder) -> list[int]:
        """The rows, and all rows of the sessions that no longer have their gang."""
        chosen = set(rows.tolist())
        for session in set(self._table.session[rows[order.is_bundled(rows)]].tolist()):
            chosen.update(self._table.sessions[session].rows)
        return sorted(chosen)
