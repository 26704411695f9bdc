"""Reprieve: leaves out of a set every victim that it does without, dearest first.

Takes a set that is enough. Gives one that is still enough, in which no victim is
superfluous. A gang that would end whole is spared, or keeps its dearest kernels as far as
they are its gang.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sokovan.scheduling.engine.evictions.order import UnitOrder
from sokovan.scheduling.engine.evictions.seats import SeatLedger
from sokovan.scheduling.engine.evictions.taker import Taker
from sokovan.scheduling.engine.evictions.victims import VictimSession


class Reprieve:
    """Reduces one set of victims."""

    def __init__(self, taker: Taker, agents: range) -> None:
        self._table, self._seats, self._fits, self._agents = taker.table, taker.seats, taker.fits, agents
        self._rules, self._proved_later = taker.rules, taker.proved_later
        self._gone: set[int] = set()
        self._ledger: SeatLedger | None = None

    def run(self, rows: Sequence[int], order: UnitOrder) -> list[int]:
        """The rows that remain; empty if the set is not enough after all."""
        units = [
            (order.last_position(part), part)
            for session, mine in self._table.by_session(sorted(rows)).items()
            for part in self._parts(session, mine)
        ]
        dearest_first = [unit for _, unit in sorted(units, key=lambda item: (-item[0], item[1]))]
        found = [self._reduced(rows, dearest_first)]
        gangs = [unit for unit in dearest_first if len(unit) > 1 or self._ends_alone(unit)]
        if len(gangs) > 1 and any(self._may_shrink(unit) for unit in gangs):
            # A gang that is shrunk may take the room with which another one is spared whole.
            found.append(self._reduced(rows, dearest_first, gangs))
            found.sort(key=lambda kept: (self._rules.key(kept), len(kept)))
        return next((kept for kept in found if self._proved_later or self._fits(kept) is not None), [])

    def _reduced(
        self, rows: Sequence[int], units: Sequence[list[int]], whole_first: Sequence[list[int]] = ()
    ) -> list[int]:
        """The rows that remain if units are spared in this order; `whole_first` whole, before any is shrunk."""
        self._gone = set(rows)
        if self._seats.tight:
            self._ledger = SeatLedger(self._seats, rows, self._agents)
        for unit in whole_first:
            self._spare(unit)
        for unit in units:
            if self._gone.issuperset(unit) and not self._spare(unit) and len(unit) > 1 and self._may_shrink(unit):
                self._spare_gang(unit)
        return sorted(self._gone)

    def _may_shrink(self, unit: Sequence[int]) -> bool:
        """Whether a part of a gang may go, and the rest stay."""
        return len(unit) > 1 and self._table.sessions[int(self._table.session[unit[0]])].allowance > 0

    def _ends_alone(self, unit: Sequence[int]) -> bool:
        """Whether a session of one kernel ends."""
        session = int(self._table.session[unit[0]])
        return self._table.ends(session, unit) and not self._table.sessions[session].broken

    def _parts(self, session: int, rows: list[int]) -> list[list[int]]:
        whole = self._table.ends(session, rows) and not self._table.sessions[session].broken
        return [rows] if whole else [[row] for row in rows]

    def _spare(self, rows: Sequence[int]) -> bool:
        """Leave these rows out, if the rest is enough."""
        if self._ledger is not None:
            if not self._ledger.take_back(rows):
                return False
        else:
            rest = sorted(self._gone.difference(rows))
            if not self._seats.enough_in(np.array(rest, np.int64), self._agents) or self._fits(rest) is None:
                return False
        self._gone.difference_update(rows)
        return True

    def _spare_gang(self, rows: Sequence[int]) -> None:
        """Keep the dearest rows of a gang that would end whole, if what is kept is a gang."""
        table, victim = self._table, self._table.sessions[int(self._table.session[rows[0]])]
        # The others do not go on without those that lead.
        dearest = sorted(
            rows,
            key=lambda row: (
                not table.leads[row], -int(table.priority[row]), -table.losses[row], -int(table.name_rank[row])
            ),
        )  # fmt: skip
        spared = [row for row in dearest if self._spare([row])]
        gone = set(rows).difference(spared)
        if spared and not victim.keeps_gang(gone):
            self._give_back(spared)
            self._spare_surplus(dearest, victim)

    def _spare_surplus(self, dearest: Sequence[int], victim: VictimSession) -> None:
        """Keep what groups need before what is dear; take of a gang only what it can do without."""
        surplus = set(victim.surplus(reversed(dearest)))
        if not surplus or not self._spare([row for row in dearest if row not in surplus]):
            return
        for row in dearest:
            if row in surplus and victim.keeps_gang(surplus - {row}) and self._spare([row]):
                surplus.discard(row)

    def _give_back(self, rows: Sequence[int]) -> None:
        """Take rows again that were left out."""
        self._gone.update(rows)
        if self._ledger is not None:
            self._ledger.give(rows)
