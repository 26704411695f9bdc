"""What agents have and nobody needs: kernels without a session, old logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sokovan.domain.ids import AgentId, KernelId
from sokovan.orchestrator.agent_requests import Notify
from sokovan.orchestrator.request_backoff import AgentRequestKey
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.ports.agent_states import AgentState, KernelReport
from sokovan.ports.storage import Store

ORPHAN = "orphan"
FORGET = "forget"
_GRACE_S = 5.0
# Of one agent and round, so that old kernels do not keep an agent from new ones.
_FORGET_AT_A_TIME = 100


@dataclass(frozen=True, slots=True)
class Retention:
    """How long the output of ended kernels can be read, and of how many on one agent."""

    seconds: float = 3600.0
    kernels_max: int = 1000


class GarbageCollector:
    """Stops kernels that the store does not know as alive, and forgets old ended ones.

    Looked at in long rounds only, on a state that is read after the reports: a kernel in
    a report was on record before it was asked for.
    """

    name = "leftovers"

    def __init__(self, bench: HandlerContext, store: Store, *, retention: Retention | None = None) -> None:
        self._bench, self._store = bench, store
        self._retention = retention or Retention()
        self._ended_ms: dict[AgentId, dict[tuple[KernelId, int], int]] = {}

    def clear(self) -> None:
        """Forget what was seen."""
        self._ended_ms.clear()

    async def handle(self, seen: Cycle) -> bool:
        """Look at what every agent lists beside what is held there."""
        if seen.long:
            for agent_id in seen.agents:
                state = self._bench.reports.state(agent_id)
                if state is not None:
                    await self._look(state)
        return False

    async def _look(self, state: AgentState) -> None:
        held = set(self._bench.live.kernels_on(state.agent_id))
        unheld = [report for report in state.kernels if report.kernel_id not in held]
        ended = self._to_forget(state.agent_id, [report for report in unheld if report.exit_code is not None])
        running = [report for report in unheld if report.exit_code is None]
        if not running and not ended:
            return
        kernels = await self._store.read(lambda unit: unit.ledger.kernels_on(state.agent_id))
        known = {(kernel.kernel_id, kernel.attempt) for kernel in kernels}
        for report in running:
            if (report.kernel_id, report.attempt) not in known:
                self._bench.telemetry.count("orphans_total")
                self._stop(state, report)
        for report in ended:
            if (report.kernel_id, report.attempt) not in known:
                self._forget(state, report)

    def _to_forget(self, agent_id: AgentId, ended: Sequence[KernelReport]) -> list[KernelReport]:
        """The ended kernels whose time is over, or that are too many; the oldest first."""
        now_ms = self._bench.clock.monotonic_ms()
        before = self._ended_ms.get(agent_id, {})
        since = {(one.kernel_id, one.attempt): before.get((one.kernel_id, one.attempt), now_ms) for one in ended}
        self._ended_ms[agent_id] = since
        oldest = sorted(ended, key=lambda one: (since[one.kernel_id, one.attempt], one.kernel_id))
        surplus = len(oldest) - self._retention.kernels_max
        over_ms = self._retention.seconds * 1000
        due = [
            one
            for place, one in enumerate(oldest)
            if place < surplus or now_ms - since[one.kernel_id, one.attempt] >= over_ms
        ]
        return due[:_FORGET_AT_A_TIME]

    def _stop(self, state: AgentState, report: KernelReport) -> None:
        gateway, key = self._bench.gateway, AgentRequestKey(ORPHAN, state.agent_id, report.kernel_id, report.attempt)
        self._bench.errands.begin(
            key,
            lambda: gateway.stop_kernel(
                key.agent_id, state.incarnation, report.kernel_id, report.attempt, grace_s=_GRACE_S
            ),
            tell=Notify.NOTHING,
        )

    def _forget(self, state: AgentState, report: KernelReport) -> None:
        gateway, key = self._bench.gateway, AgentRequestKey(FORGET, state.agent_id, report.kernel_id, report.attempt)
        self._bench.errands.begin(
            key,
            lambda: gateway.forget_kernel(key.agent_id, state.incarnation, report.kernel_id, report.attempt),
            tell=Notify.NOTHING,
        )
