"""EarliestStart: the earliest time at which a waiting session fits whole.

Takes a session that lacks room. Gives the time and the agents at which all kernels that it
must start with fit, under every rule, because the sessions that run there have ended by
then. A lower bound comes from columns: for each shape, the time at which enough seats are
free in an allowed HyperNode. From there on, a Statement tries one time after another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np

from sokovan.domain.cluster.topology import ROOT
from sokovan.scheduling.engine.gang import CycleContext
from sokovan.scheduling.engine.pending_session import PendingSession, TentativeKernel
from sokovan.scheduling.engine.placement import PlacementAttempt
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.starts.later_state import room_later, usage_later
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.timing.calendar import Calendar
from sokovan.scheduling.engine.topology_search import Tier
from sokovan.scheduling.engine.workspace import Ints
from sokovan.scheduling.snapshot import NEVER_MS

# So many times are tried in order; of later ones, some by bisection.
_IN_ORDER = 8

Fits = Callable[[PendingSession, Statement, PlacementAttempt], bool]


class EarliestStart:
    """Searches a start time for one session."""

    def __init__(self, context: CycleContext, calendar: Calendar, fits: Fits) -> None:
        self._context, self._calendar, self._fits = context, calendar, fits

    def hold(self, pending: PendingSession) -> bool:
        """Hold room for the session at the earliest time; False if there is no such time."""
        times = self._calendar.times()
        first = bisect_left(times, self._lower_bound(pending))
        for at_ms in times[first : first + _IN_ORDER]:
            if self._try(pending, at_ms):
                return True
        low, high = min(len(times), first + _IN_ORDER), len(times) - 1
        found = None
        while low <= high:
            middle = (low + high) // 2
            kernels = self._kernels_at(pending, times[middle])
            if kernels:
                found, high = (times[middle], kernels), middle - 1
            else:
                low = middle + 1
        if found is not None:
            self._calendar.hold(pending, found[1], found[0])
        return found is not None

    def _try(self, pending: PendingSession, at_ms: int) -> bool:
        kernels = self._kernels_at(pending, at_ms)
        if kernels:
            self._calendar.hold(pending, kernels, at_ms)
        return bool(kernels)

    def _kernels_at(self, pending: PendingSession, at_ms: int) -> list[TentativeKernel]:
        """The kernels with the agents that they would start on at a time; empty if they do not fit."""
        context, workspace = self._context, self._context.workspace
        before = (pending.reason, pending.kernels_fit)
        cache, context.fit_error_cache = context.fit_error_cache, None
        found: list[TentativeKernel] = []
        try:
            ended = self._calendar.ends.usage_ended_by(at_ms)
            room = self._calendar.room(pending.session, at_ms)
            with room_later(workspace, room), usage_later(context.queue_usage, ended):
                statement = Statement(workspace, context.choice)
                attempt = PlacementAttempt(pending, context, statement, released=True)

                def fill() -> bool:
                    pending.reason = None
                    if self._fits(pending, statement, attempt):
                        found.extend(statement.kernels)
                    return False

                statement.attempt(fill)
        finally:
            pending.reason, pending.kernels_fit = before
            context.fit_error_cache = cache
        return found

    def _lower_bound(self, pending: PendingSession) -> int:
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
