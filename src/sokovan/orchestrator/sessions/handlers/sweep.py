"""Runs time-driven handlers: heartbeats, deadlines, garbage collection."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.sessions.config import Timing
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext, SessionHandler
from sokovan.orchestrator.sessions.handlers.agent_health import AgentHealthMonitor
from sokovan.orchestrator.sessions.handlers.deadlines import EnforceDeadlines
from sokovan.orchestrator.sessions.handlers.garbage_collection import GarbageCollector
from sokovan.orchestrator.sessions.handlers.heartbeats import HeartbeatMonitor
from sokovan.orchestrator.sessions.handlers.housekeeping import Housekeeping
from sokovan.orchestrator.sessions.handlers.lost_agents import EndLostSessions
from sokovan.ports.environment import IdSource


def periodic_sweep(context: HandlerContext, ids: IdSource, timing: Timing) -> PeriodicSweep:
    """The sweep with its handlers, in the order in which they run."""
    handlers = (
        HeartbeatMonitor(context, timeouts=timing.heartbeats),
        EndLostSessions(context, ids, lost_s=timing.session_lost_s, guard=timing.mass_failures),
        EnforceDeadlines(context),
        AgentHealthMonitor(context, ids, limits=timing.health),
        GarbageCollector(context, retention=timing.retention),
        Housekeeping(context),
    )
    return PeriodicSweep(context, handlers, every_s=timing.sweep_s, timeout_s=timing.handler_timeout_s)


class PeriodicSweep:
    """Runs its handlers every `every_s`, and in every long cycle.

    `timeout_s` is divided equally among the handlers.
    """

    name = "sweep"

    def __init__(
        self,
        context: HandlerContext,
        handlers: Sequence[SessionHandler],
        *,
        every_s: float = 1.0,
        timeout_s: float = 60.0,
    ) -> None:
        self._context, self._clock = context, context.clock
        self._handlers, self._every_ms = tuple(handlers), round(every_s * 1000)
        self._share_s = timeout_s / max(1, len(self._handlers))
        self._swept_ms: int | None = None

    def clear(self) -> None:
        """Reset the handlers; the next cycle sweeps."""
        self._swept_ms = None
        for handler in self._handlers:
            handler.clear()

    def session_changed(self, before: SessionRecord | None, after: SessionRecord) -> None:
        """Let the handlers see the change of a session."""
        for handler in self._handlers:
            if isinstance(handler, AgentHealthMonitor):
                handler.session_changed(before, after)

    def next_due_s(self) -> float:
        """Seconds until the next sweep."""
        if self._swept_ms is None:
            return 0.0
        return max(0, self._swept_ms + self._every_ms - self._clock.monotonic_ms()) / 1000

    async def handle(self, cycle: CycleInput) -> bool:
        """Sweep if it is due."""
        if not cycle.long and self.next_due_s() > 0:
            return False
        self._swept_ms = self._clock.monotonic_ms()
        moved = False
        for handler in self._handlers:
            moved |= await self._context.run(handler, cycle, timeout_s=self._share_s)
        return moved
