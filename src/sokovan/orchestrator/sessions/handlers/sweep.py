"""Runs time-driven handlers: heartbeats, deadlines, garbage collection."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext, SessionHandler
from sokovan.orchestrator.sessions.handlers.agent_health import AgentHealthMonitor
from sokovan.orchestrator.sessions.handlers.deadlines import EnforceDeadlines
from sokovan.orchestrator.sessions.handlers.garbage_collection import GarbageCollector
from sokovan.orchestrator.sessions.handlers.heartbeats import DeviceFaultMonitor, HeartbeatMonitor, StoreCheckpoints
from sokovan.orchestrator.sessions.handlers.housekeeping import Housekeeping
from sokovan.orchestrator.sessions.handlers.lost_agents import EndLostSessions
from sokovan.ports.environment import IdSource


def periodic_sweep(context: HandlerContext, ids: IdSource) -> PeriodicSweep:
    """The sweep with its handlers, in the order in which they run."""
    handlers = (
        HeartbeatMonitor(context),
        StoreCheckpoints(context),
        EndLostSessions(context, ids),
        EnforceDeadlines(context),
        AgentHealthMonitor(context, ids),
        DeviceFaultMonitor(context),
        GarbageCollector(context),
        Housekeeping(context, ids),
    )
    return PeriodicSweep(context, handlers)


class PeriodicSweep:
    """Runs its handlers every `sweep_s`, and in every long cycle.

    The timeout of a handler of the coordinator is divided equally among them.
    """

    name = "sweep"

    def __init__(self, context: HandlerContext, handlers: Sequence[SessionHandler]) -> None:
        self._context, self._clock, self._timing = context, context.clock, context.timing
        self._handlers = tuple(handlers)
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

    def attend(self) -> None:
        """Let the handlers know that the event loop is not busy."""
        for handler in self._handlers:
            if isinstance(handler, HeartbeatMonitor):
                handler.attend()

    def next_due_s(self) -> float:
        """Seconds until the next sweep."""
        if self._swept_ms is None:
            return 0.0
        every_ms = round(self._timing.current.sweep_s * 1000)
        return max(0, self._swept_ms + every_ms - self._clock.monotonic_ms()) / 1000

    async def handle(self, cycle: CycleInput) -> bool:
        """Sweep if it is due."""
        if not cycle.long and self.next_due_s() > 0:
            return False
        self._swept_ms = self._clock.monotonic_ms()
        moved, share_s = False, self._timing.current.handler_timeout_s / max(1, len(self._handlers))
        for handler in self._handlers:
            moved |= await self._context.run(handler, cycle, timeout_s=share_s)
        return moved
