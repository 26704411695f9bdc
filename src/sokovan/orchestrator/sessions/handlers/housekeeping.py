"""Publishes gauges, prunes the store and completes arrays."""

from __future__ import annotations

from collections import Counter

from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.orchestrator.sessions.array_control import ArrayStorage
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.ports.environment import IdSource

_PRUNE_EVERY_MS = 60_000
# An array that is not complete after this was interrupted: its manager died, or the database failed.
_INTERRUPTED_MS = 30_000
# Arrays that are completed in one long cycle, and parts of each that are stored.
_ARRAYS_MAX = 4
_PARTS_MAX = 20
# Commit marks are only looked up while a transaction is retried, which takes less than this.
_MARKS_KEPT_S = 600.0


class Housekeeping:
    """Publishes how many sessions and agents are in which state, and prunes the store.

    Stores what is missing of arrays whose submission was interrupted.
    """

    name = "housekeeping"

    def __init__(self, context: HandlerContext, ids: IdSource) -> None:
        self._sessions, self._requests, self._store = context.sessions, context.requests, context.store
        self._clock, self._telemetry = context.clock, context.telemetry
        self._timing, self._arrays = context.timing, ArrayStorage(context.store, ids)
        self._pruned_ms: int | None = None
        self._more = False  # whether records beyond their retention may be left

    def clear(self) -> None:
        """Keep the time of the last pruning: it does not depend on the term."""

    async def handle(self, cycle: CycleInput) -> bool:
        """Publish gauges and complete arrays in every long cycle; prune once a minute."""
        if not cycle.long:
            return False
        self._publish(cycle)
        await self._prune()
        return await self._complete_arrays()

    def _publish(self, cycle: CycleInput) -> None:
        telemetry = self._telemetry
        for status in SessionStatus:
            telemetry.gauge("sessions", self._sessions.statuses[status], status=status.value)
        agents = Counter(info.status for info in cycle.agents.values())
        for agent_status in AgentStatus:
            telemetry.gauge("agents", agents[agent_status], status=agent_status.value)
        for need in Need:
            telemetry.gauge("queue_length", self._sessions.count(need), queue=need.value)
        telemetry.gauge("requests_under_way", self._requests.under_way)

    async def _complete_arrays(self) -> bool:
        """Store some of the sessions that are missing; whether there were any."""
        found = await self._store.read(
            lambda unit: unit.arrays.unfinished(before_ms=unit.now_ms - _INTERRUPTED_MS, limit=_ARRAYS_MAX)
        )
        for array in found:
            await self._arrays.complete(array, parts=_PARTS_MAX)
        return bool(found)

    async def _prune(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._pruned_ms is None or now_ms - self._pruned_ms >= _PRUNE_EVERY_MS:
            self._pruned_ms = now_ms
            await self._store.prune(older_than_s=_MARKS_KEPT_S)
            self._more = True
        if self._more:
            self._more = await self._store.expire(self._timing.current.records)
