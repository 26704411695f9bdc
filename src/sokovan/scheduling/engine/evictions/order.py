"""UnitOrder: candidates as units, in the order in which they are taken.

Takes a taker and the rows of its candidates. Gives the rows with the position of their unit:
a surplus kernel, or a whole gang (a bundle). Surplus goes before bundles; among
equals the nearer queue, the lower priority and the smaller loss go first. With
`largest_first` units that release more go before those. What a unit may release depends on
those before it only, so that the beginning of an order is made without the rest of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sokovan.domain.lifecycle.eviction import RECLAIM
from sokovan.scheduling.engine.evictions.queue_columns import ShareColumns
from sokovan.scheduling.engine.evictions.taker import Taker
from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.engine.workspace import Flags, Ints

# An order that so many candidates have left is made shorter.
GONE_MAX = 64


class SharedOrder(NamedTuple):
    """Candidates, and those that may go, in the order of their units.

    `counts` are the candidates by session.
    """

    candidates: Flags
    size: int
    counts: Ints
    rows: Ints
    surplus: Flags

    def gone(self, candidates: Flags, size: int, table: VictimTable) -> Ints | None:
        """The candidates that have left; None if one is new, or left without its gang."""
        gone: Ints = (self.candidates & ~candidates).nonzero()[0]
        if len(gone) != self.size - size:
            return None
        sessions = table.session[gone]
        left = self.counts - np.bincount(sessions, minlength=len(self.counts))
        return None if left[sessions].any() else gone

    def beginning(self, candidates: Flags, rows: int) -> tuple[Ints, Flags]:
        """The first rows without those that have left, which are among them or not."""
        keep = candidates[self.rows[:rows]]
        return self.rows[:rows][keep], self.surplus[:rows][keep]


class UnitOrder:
    """Rows with the position of their unit; rows that may not go are left out.

    With `first` it has only the units of about so many rows (see `complete`).
    """

    def __init__(self, taker: Taker, rows: Ints, *, largest_first: bool, first: int | None = None) -> None:
        rules, table, seats = taker.rules, taker.table, taker.seats
        self._rules, self._table = rules, table
        first = len(table.kernels) if first is None else first
        if rows is rules.candidates and not largest_first and not rules.has_plugins:
            self.rows, surplus = self._shared(rows, first)
        else:
            self.rows, surplus = self._ordered(rows, seats.weights(rows) if largest_first else None)
        end = self._unit_end(surplus, first)
        self.complete = end == len(self.rows)
        self.rows, surplus = self.rows[:end], surplus[:end]
        self.positions = self._numbered(self.rows, surplus)
        if rules.action == RECLAIM:
            allowed = self._above_shares()
            if not allowed.all():
                self.rows, surplus = self.rows[allowed], surplus[allowed]
                self.positions = self._numbered(self.rows, surplus)
        self._bundled: Flags = np.zeros(len(table.kernels), bool)
        self._bundled[self.rows[~surplus]] = True
        self._position_of: Ints = np.full(len(table.kernels), -1, np.int64)
        self._position_of[self.rows] = self.positions
        self.units = int(self.positions[-1]) + 1 if len(self.positions) else 0

    def upto(self, last: int) -> Ints:
        """The rows of all units up to a position."""
        return self.rows[: self._end(last + 1)]

    def beginning(self, units: int) -> UnitOrder:
        """The same order with its first units only."""
        other = object.__new__(UnitOrder)
        other.__dict__.update(self.__dict__)
        end = self._end(units)
        other.rows, other.positions = self.rows[:end], self.positions[:end]
        return other

    def _end(self, units: int) -> int:
        """The number of rows of the first units; positions rise."""
        return int(self.positions.searchsorted(units, side="left"))

    def last_position(self, rows: Sequence[int]) -> int:
        """The highest position among rows; -1 for rows that are not in this order."""
        return int(self._position_of[list(rows)].max())

    def is_bundled(self, rows: Ints) -> Flags:
        """Which rows go only with their whole session."""
        return self._bundled[rows]

    def _shared(self, rows: Ints, first: int) -> tuple[Ints, Flags]:
        """The order of all candidates, filtered from that of an earlier taker.

        It may end after the unit with the row of number `first`. Candidates only leave in a
        cycle. As long as whole sessions leave, the order of the others stays, and so does
        which of their kernels are surplus.
        """
        table, candidates = self._table, self._rules.is_candidate
        for key in self._rules.order_keys:
            # The latest order is nearest; the first one has candidates that only other takers leave out.
            known: Sequence[SharedOrder] = table.kept.get(key, ())
            for one in reversed(known):
                gone = one.gone(candidates, len(rows), table)
                if gone is None:
                    continue
                if len(gone) <= GONE_MAX:
                    return one.beginning(candidates, first + len(gone) + table.largest + 1)
                left = one.beginning(candidates, len(one.rows))
                table.kept[key] = (known[0], SharedOrder(candidates, len(rows), self._counts(rows), *left))
                return left
        made = SharedOrder(candidates, len(rows), self._counts(rows), *self._ordered(rows, None))
        for key in self._rules.order_keys:
            table.kept[key] = (made,)
        return made.rows, made.surplus

    def _counts(self, rows: Ints) -> Ints:
        """The number of these rows by session."""
        return np.bincount(self._table.session[rows], minlength=len(self._table.sessions))

    def _ordered(self, rows: Ints, weights: Ints | None) -> tuple[Ints, Flags]:
        """The rows that may go, in the order in which they are taken, and which are surplus."""
        rules, table = self._rules, self._table
        surplus = self._surplus(rows)
        whole = (self._counts(rules.candidates) == table.sizes) & rules.whole
        keep = surplus | whole[table.session[rows]]
        rows, surplus = rows[keep], surplus[keep]
        order = self._sorted(rows, surplus, None if weights is None else weights[keep])
        return rows[order], surplus[order]

    def _surplus(self, rows: Ints) -> Flags:
        """Which rows their sessions may lose without losing their gang."""
        table = self._table
        leads = table.leads[rows]
        order = np.lexsort((table.name_rank[rows], table.loss[rows], table.priority[rows], leads, table.session[rows]))
        sessions = table.session[rows][order]
        starts = np.flatnonzero(np.concatenate(([True], sessions[1:] != sessions[:-1]))) if len(rows) else order
        ranks = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
        flags: Flags = np.zeros(len(rows), bool)
        flags[order] = (ranks < table.allowance[sessions]) & ~leads[order]
        ends = np.append(starts[1:], len(rows))
        for number in np.flatnonzero(~(table.plain | table.broken)[sessions[starts]]).tolist():
            mine = order[starts[number] : ends[number]]
            allowed = set(table.sessions[int(table.session[rows[mine[0]]])].surplus(rows[mine].tolist()))
            flags[mine] = [row in allowed for row in rows[mine].tolist()]
        return flags

    def _sorted(self, rows: Ints, surplus: Flags, weights: Ints | None) -> Ints:
        table, sessions = self._table, self._table.session[rows]
        distance = np.array([self._rules.distance(node) for node in table.queues], np.int64)[table.queue[rows]]
        queue_priority = np.zeros(len(rows), np.int64)
        if self._rules.action == RECLAIM:
            queue_priority = np.array([node.queue.priority for node in table.queues], np.int64)[table.queue[rows]]
        order = self._queue_ranks()[table.queue[rows]]
        priority, loss = table.priority[rows].copy(), table.loss[rows].copy()
        name = table.name_rank[rows].copy()
        bundled = ~surplus
        for column, combine, start in (
            (priority, np.maximum, np.iinfo(np.int64).min),
            (loss, np.add, 0),
            (name, np.minimum, np.iinfo(np.int64).max),
            *(((weights, np.add, 0),) if weights is not None else ()),
        ):
            by_session = np.full(len(table.sessions), start, np.int64)
            combine.at(by_session, sessions[bundled], column[bundled])
            column[bundled] = by_session[sessions[bundled]]
        size = np.zeros(len(rows), np.int64) if weights is None else -weights
        others = ~self._rules.recalled[rows]
        costs = (loss, priority, table.session_priority[rows], queue_priority, distance, order)
        return np.lexsort((sessions, name, *costs, size, bundled, others))

    def _queue_ranks(self) -> Ints:
        """The rank of each queue by the order of plugins; all are equal without one."""
        keys = [self._rules.queue_key(node) for node in self._table.queues]
        ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
        return np.array([ranks[key] for key in keys], np.int64)

    def _unit_end(self, surplus: Flags, end: int) -> int:
        """The number of rows up to the end of the unit that has the row before `end`."""
        if end >= len(self.rows) or not end or surplus[end - 1]:
            return min(end, len(self.rows))
        last = self._table.session[self.rows[end - 1]]
        if self._table.session[self.rows[end]] != last:
            return end
        after = slice(end, end + int(self._table.sizes[last]))
        joins = ~surplus[after] & (self._table.session[self.rows[after]] == last)
        return end + int(np.argmin(np.append(joins, False)))

    def _numbered(self, rows: Ints, surplus: Flags) -> Ints:
        """The position of each row's unit: rows of one bundle share it."""
        if not len(rows):
            return np.zeros(0, np.int64)
        sessions = self._table.session[rows]
        joins = np.zeros(len(rows), bool)
        joins[1:] = ~surplus[1:] & ~surplus[:-1] & (sessions[1:] == sessions[:-1])
        return np.asarray((~joins).cumsum() - 1, np.int64)

    def _above_shares(self) -> Flags:
        """The rows whose queue is still above its share when their unit is taken in this order."""
        table, rules, width = self._table, self._rules, len(self._rules.asked)
        if not len(self.rows):
            return np.zeros(0, bool)
        shares = ShareColumns.of(table)
        # Mostly every queue is above its share even if all these rows are gone.
        relevant = shares.relevant(rules.asked)[table.pair[self.rows]]
        queues, all_gone = table.queue[self.rows], rules.used.copy()
        np.subtract.at(all_gone, queues, table.released[self.rows][:, :width])
        above = (all_gone > shares.deserved)[queues] & relevant
        if above.any(axis=1).all():
            return np.ones(len(self.rows), bool)
        by_queue = np.argsort(table.queue[self.rows], kind="stable")
        rows, units = self.rows[by_queue], self.positions[by_queue]
        queues = table.queue[rows]
        released = table.released[rows][:, :width]
        before = released.cumsum(axis=0) - released
        # A bundle is taken at once: what is gone before its first row counts for all of it.
        taken = before[_starts(units)] - before[_starts(queues)]
        above = (rules.used[queues] - taken > shares.deserved[queues]) & relevant[by_queue]
        above |= rules.recalled[rows][:, None]
        # A bundle goes whole or not at all.
        refused = np.zeros(int(self.positions.max()) + 1, bool)
        refused[units[~above.any(axis=1)]] = True
        return ~refused[self.positions]


def _starts(column: Ints) -> Ints:
    """For each entry, the index of the first of the equal ones around it."""
    first = np.concatenate(([True], column[1:] != column[:-1]))
    return np.asarray(first.nonzero()[0][first.cumsum() - 1], np.int64)
