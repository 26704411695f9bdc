"""EarliestStart: the earliest time at which a waiting session fits whole.

Takes a session that lacks room. Gives the time and the agents at which all kernels that it
must start with fit, under every rule, because the sessions that run there have ended by
then. A lower bound comes from columns: for each shape, the time at which enough seats are
free in an allowed HyperNode. From there on, a Statement tries one time after another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from sokovan.scheduling.engine.gang import CycleContext
from sokovan.scheduling.engine.pending_session import PendingSession, TentativeKernel
from sokovan.scheduling.engine.placement import PlacementAttempt
from sokovan.scheduling.engine.starts.later_state import room_later, usage_later
from sokovan.scheduling.engine.starts.seat_times import SeatTimes
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.timing.calendar import Calendar

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
        first = bisect_left(times, SeatTimes(self._context, self._calendar).lower_bound(pending))
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
        ended = self._calendar.ends.usage_ended_by(at_ms)
        room = self._calendar.room(pending.session, at_ms)
        with (
            room_later(workspace, room),
            usage_later(context.queue_usage, ended),
            context.tried(pending) as trial,
        ):
            statement, pending.reason = trial.statement(), None
            attempt = PlacementAttempt(pending, context, statement, released=True)
            return statement.kernels if self._fits(pending, statement, attempt) else []
