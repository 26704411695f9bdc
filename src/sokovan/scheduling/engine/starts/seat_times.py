"""SeatTimes: a lower bound of the time at which a session fits.

Takes the ends of running kernels as columns. Gives, for each shape of a session, the time
at which an allowed HyperNode has enough seats, whatever else is held then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sokovan.domain.cluster.topology import ROOT
from sokovan.scheduling.engine.gang import CycleContext
from sokovan.scheduling.engine.pending_session import PendingSession
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.timing.calendar import Calendar
from sokovan.scheduling.engine.topology_search import Tier
from sokovan.scheduling.engine.workspace import Ints
from sokovan.scheduling.snapshot import NEVER_MS


class SeatTimes:
    """The times at which seats become free in one cycle."""

    def __init__(self, context: CycleContext, calendar: Calendar) -> None:
        self._context, self._calendar = context, calendar

    def lower_bound(self, pending: PendingSession) -> int:
        """A time before which the session does not fit, by the seats of each shape."""
        session = pending.session
        kinds = {batch.shape for batch in pending.batches}
        elastic = len(kinds) > 1 and pending.need() < pending.waiting
        if session.group_minimums or pending.kernel_groups or elastic or any(shape.affinity for shape in kinds):
            return self._calendar.now_ms
        need, bound = pending.need(), self._calendar.now_ms
        tiers = self._tiers(pending)
        for batch in pending.batches:
            count = min(need, len(batch.kernels))
            if count:
                bound = max(bound, self._seats_free_at(batch.shape, count, tiers))
            need -= count
        return bound

    def _tiers(self, pending: PendingSession) -> Sequence[Tier]:
        topology = self._context.topology
        if pending.session.topology is None:
            return [topology.root()]
        limit = topology.tier_limit(pending.session.topology)
        return topology.tiers(limit, inside=ROOT, agents=pending.agents)

    def _seats_free_at(self, shape: Shape, count: int, tiers: Sequence[Tier]) -> int:
        """The time at which some HyperNode has enough seats for a shape, whatever is held."""
        plain, workspace = shape.during(0, self._context.workspace), self._context.workspace
        agents, ends, rows = self._calendar.ends.columns
        by_agent = np.lexsort((ends, agents))
        agents, ends, rows = agents[by_agent], ends[by_agent], rows[by_agent]
        base = plain.future_counts(workspace)
        gains = self._gains(plain, base, agents, rows)
        prefix = np.concatenate(([0], np.cumsum(base)))
        earliest = NEVER_MS
        for tier in tiers:
            lacking = count - (prefix[tier.highs] - prefix[tier.lows])
            if (lacking <= 0).any():
                return self._calendar.now_ms
            for low, high, short in zip(tier.lows.tolist(), tier.highs.tolist(), lacking.tolist(), strict=True):
                first, last = np.searchsorted(agents, (low, high))
                order = np.argsort(ends[first:last], kind="stable")
                enough = np.flatnonzero(np.cumsum(gains[first:last][order]) >= short)
                if len(enough):
                    earliest = min(earliest, int(ends[first:last][order][enough[0]]))
        return earliest

    def _gains(self, shape: Shape, base: Ints, agents: Ints, rows: Ints) -> Ints:
        """The seats that each agent gains with the end of each kernel, those before it ended as well."""
        if not len(agents):
            return np.zeros(0, np.int64)
        first = np.concatenate(([True], agents[1:] != agents[:-1]))
        starts = np.flatnonzero(first)[np.cumsum(first) - 1]
        total = np.cumsum(rows, axis=0)
        seats = shape.counts_with(self._context.workspace, agents, total - total[starts] + rows[starts])
        before = np.where(first, base[agents], np.concatenate(([0], seats[:-1])))
        return np.asarray(seats - before, np.int64)
