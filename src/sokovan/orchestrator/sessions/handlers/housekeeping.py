"""Small duties that nobody waits for: figures, and what may be thrown away."""

from __future__ import annotations

from collections import Counter

from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.ports.storage import Store

# Nobody asks for the mark of a commit for longer than a unit of work is tried.
_PRUNE_EVERY_MS = 60_000
_MARKS_KEPT_S = 600.0


class Housekeeping:
    """Tells how much there is of everything, and prunes the store."""

    name = "housekeeping"

    def __init__(self, bench: HandlerContext, store: Store) -> None:
        self._bench, self._store = bench, store
        self._pruned_ms: int | None = None

    async def handle(self, seen: Cycle) -> bool:
        """Figures in every long round; pruning now and then."""
        if seen.long:
            self._tell(seen)
            await self._prune()
        return False

    def _tell(self, seen: Cycle) -> None:
        telemetry, live = self._bench.telemetry, self._bench.live
        statuses = Counter(session.status for session in live.all())
        for status in SessionStatus:
            telemetry.gauge("sessions", statuses[status], status=status.value)
        agents = Counter(info.status for info in seen.agents.values())
        for agent_status in AgentStatus:
            telemetry.gauge("agents", agents[agent_status], status=agent_status.value)
        for need in Need:
            telemetry.gauge("queue_length", live.count(need), queue=need.value)
        telemetry.gauge("requests_under_way", self._bench.errands.under_way)

    async def _prune(self) -> None:
        now_ms = self._bench.clock.monotonic_ms()
        if self._pruned_ms is None or now_ms - self._pruned_ms >= _PRUNE_EVERY_MS:
            self._pruned_ms = now_ms
            await self._store.prune(older_than_s=_MARKS_KEPT_S)
