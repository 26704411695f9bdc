"""Removes what agents no longer need: orphan kernels and logs of ended kernels."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.ids import AgentId, KernelId
from sokovan.orchestrator.agent_requests import AgentRequestKey, Notify
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.ports.agent_states import AgentState, KernelReport

ORPHAN = "orphan"
FORGET = "forget"
_GRACE_S = 5.0
# Per agent and sweep, so that old kernels do not delay new ones.
_FORGET_AT_A_TIME = 1_000


class GarbageCollector:
    """Stops kernels that are not alive in the store, and forgets old ended ones.

    Runs in long cycles, and in every sweep for agents with more ended kernels than are
    kept: an agent may end many a second, and lists all of them. Reads the ledger after the
    reports: a kernel is recorded before its creation is requested, so an unknown one is an
    orphan.
    """

    name = "garbage-collection"

    def __init__(self, context: HandlerContext) -> None:
        self._sessions, self._reports, self._requests = context.sessions, context.reports, context.requests
        self._store, self._gateway, self._probes = context.store, context.gateway, context.probes
        self._clock, self._telemetry = context.clock, context.telemetry
        self._timing = context.timing
        self._ended_ms: dict[AgentId, dict[tuple[KernelId, int], int]] = {}

    def clear(self) -> None:
        """Forget when kernels ended."""
        self._ended_ms.clear()

    async def handle(self, cycle: CycleInput) -> bool:
        """Compare the report of every agent with the ledger."""
        kept = self._timing.current.retention.kernels_max
        for agent_id in cycle.agents:
            state = self._reports.state(agent_id)
            # An agent without kernels has nothing to collect, and its last ones are to be forgotten.
            found = state is not None and (state.kernels or agent_id in self._ended_ms)
            if state is not None and found and (cycle.long or len(state.kernels) > kept):
                await self._collect(state)
        return False

    async def _collect(self, state: AgentState) -> None:
        held = {*(kernel.kernel_id for kernel in self._sessions.kernels_on(state.agent_id)), *self._probes}
        unheld = [report for report in state.kernels if report.kernel_id not in held]
        ended = self._to_forget(state.agent_id, [report for report in unheld if report.exit_code is not None])
        running = [report for report in unheld if report.exit_code is None]
        if not running and not ended:
            return
        kernels = await self._store.read(lambda unit: unit.ledger.kernels_on(state.agent_id))
        known = {(kernel.kernel_id, kernel.attempt) for kernel in kernels}
        for report in running:
            if (report.kernel_id, report.attempt) not in known:
                self._telemetry.count("orphans_total")
                self._stop(state, report)
        for report in ended:
            if (report.kernel_id, report.attempt) not in known:
                self._forget(state, report)

    def _to_forget(self, agent_id: AgentId, ended: Sequence[KernelReport]) -> list[KernelReport]:
        """The ended kernels beyond the retention, the oldest first."""
        now_ms = self._clock.monotonic_ms()
        before = self._ended_ms.get(agent_id, {})
        since = {(one.kernel_id, one.attempt): before.get((one.kernel_id, one.attempt), now_ms) for one in ended}
        self._ended_ms[agent_id] = since
        if not since:
            del self._ended_ms[agent_id]
        oldest = sorted(ended, key=lambda one: (since[one.kernel_id, one.attempt], one.kernel_id))
        retention = self._timing.current.retention
        surplus, retention_ms = len(oldest) - retention.kernels_max, retention.seconds * 1000
        due = [
            one
            for index, one in enumerate(oldest)
            if index < surplus or now_ms - since[one.kernel_id, one.attempt] >= retention_ms
        ]
        return due[:_FORGET_AT_A_TIME]

    def _stop(self, state: AgentState, report: KernelReport) -> None:
        gateway, key = self._gateway, AgentRequestKey(ORPHAN, state.agent_id, report.kernel_id, report.attempt)
        self._requests.begin(
            key,
            lambda: gateway.stop_kernel(
                key.agent_id, state.incarnation, report.kernel_id, report.attempt, grace_s=_GRACE_S
            ),
            notify=Notify.NOTHING,
        )

    def _forget(self, state: AgentState, report: KernelReport) -> None:
        gateway, key = self._gateway, AgentRequestKey(FORGET, state.agent_id, report.kernel_id, report.attempt)
        self._requests.begin(
            key,
            lambda: gateway.forget_kernel(key.agent_id, state.incarnation, report.kernel_id, report.attempt),
            notify=Notify.NOTHING,
        )
