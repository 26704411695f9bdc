"""Removes agents that fail sessions from scheduling, until a probe succeeds.

A probe is a kernel without slots and session that ends at once. It is created like any
kernel, and its end is read from the agent's reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.agent_health import HEALTHY, HealthLimits
from sokovan.domain.cluster.image import HOST_IMAGE
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.records import DETAIL_MAX, SessionRecord
from sokovan.orchestrator.agent_requests import AgentRequestKey, Notify
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.handlers.garbage_collection import FORGET
from sokovan.orchestrator.sessions.handlers.health_changes import AgentFindings, evidence, has_started
from sokovan.orchestrator.sessions.handlers.start import TEMPORARY
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.ports.environment import IdSource
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.frames import CreateKernel

PROBE = "probe"
_COMMAND = ("true",)
# After a probe without a result, because the agent could not be asked.
_AGAIN_MS = 10_000


@dataclass(slots=True)
class _Probe:
    kernel_id: KernelId
    incarnation: int
    until_ms: int
    error: SokovanError | None = None


class AgentHealthMonitor:
    """Counts failures of agents, and probes those that fail."""

    name = "agent-health"

    def __init__(self, context: HandlerContext, ids: IdSource) -> None:
        self._sessions, self._batches = context.sessions, context.batches
        self._reports, self._requests = context.reports, context.requests
        self._gateway, self._clock, self._telemetry = context.gateway, context.clock, context.telemetry
        self._ids, self._timing, self._kernels = ids, context.timing, context.probes
        self._findings: dict[AgentId, AgentFindings] = {}
        self._probes: dict[AgentId, _Probe] = {}
        self._held_ms: dict[AgentId, int] = {}

    def clear(self) -> None:
        """Forget findings that are not stored, and probes under way."""
        for known in (self._findings, self._probes, self._held_ms, self._kernels):
            known.clear()

    def session_changed(self, before: SessionRecord | None, after: SessionRecord) -> None:
        """Collect what the change of a session shows about its agents."""
        # A write of a large session leaves most kernels the same objects.
        pairs = zip_longest(() if before is None else before.kernels, after.kernels)
        changed = [pair for pair in pairs if pair[0] is not pair[1]]
        known = {kernel.kernel_id: kernel.status for kernel, _ in changed if kernel is not None}
        for kernel in (kernel for _, kernel in changed if kernel is not None):
            if kernel.agent_id is not None and has_started(known.get(kernel.kernel_id), kernel):
                findings = self._of(kernel.agent_id)
                findings.started_ms = max(findings.started_ms, kernel.since_ms)
        if after.failed_starts and (before is None or evidence(before) != evidence(after)):
            for agent_id, failure in evidence(after):
                self._of(agent_id).failures.append(failure)

    async def handle(self, cycle: CycleInput) -> bool:
        """Store what was found, and probe the agents for which it is time."""
        self._take_outcomes()
        findings = [one for agent_id, one in sorted(self._findings.items()) if one.matter(cycle.agents.get(agent_id))]
        self._findings.clear()
        written = await self._batches.write(findings, self._write)
        for one, _ in written.failures:  # it was written concurrently
            self._findings[one.agent_id] = one
        for _ in filter(None, written.results):
            self._telemetry.count("agent_recoveries_total")
        stale = {one.agent_id for one in findings}  # read before these writes: decided in the next sweep
        # Nearly all agents are as they began.
        others = [info for info in cycle.agents.values() if info.health is not HEALTHY and info.health != HEALTHY]
        self._begin_probes([info for info in others if info.agent_id not in stale])
        self._telemetry.gauge("agents_failing", sum(info.health.is_failing for info in others))
        return any(written.results)

    @property
    def _limits(self) -> HealthLimits:
        return self._timing.current.health

    def _of(self, agent_id: AgentId) -> AgentFindings:
        return self._findings.setdefault(agent_id, AgentFindings(agent_id))

    async def _write(self, unit: UnitOfWork, batch: Sequence[AgentFindings]) -> Sequence[bool]:
        return [await self._write_one(unit, findings) for findings in batch]

    async def _write_one(self, unit: UnitOfWork, findings: AgentFindings) -> bool:
        """Write the health of one agent; whether it is returned to scheduling."""
        agent = await unit.fleet.get(findings.agent_id)
        before = agent.info.health
        after = findings.applied(before, self._limits, now_ms=unit.now_ms)
        if after != before:
            await unit.fleet.set_health(agent, after, findings.change(before, after))
        return before.is_failing and not after.is_failing

    def _begin_probes(self, agents: Iterable[AgentInfo]) -> None:
        now_ms = self._clock.monotonic_ms()
        for info in agents:
            due_ms = info.health.probe_due_ms(self._limits)
            if due_ms is None or info.status is not AgentStatus.ALIVE or info.agent_id in self._probes:
                continue
            if due_ms <= self._sessions.now_ms and self._held_ms.get(info.agent_id, 0) <= now_ms:
                self._begin(info, now_ms)

    def _begin(self, info: AgentInfo, now_ms: int) -> None:
        """Start a kernel on the agent as those of sessions are, without slots."""
        kernel_id, agent_id, gateway = KernelId(self._ids.new(PROBE)), info.agent_id, self._gateway
        launch = CreateKernel(kernel_id, 1, kernel_id, HOST_IMAGE, _COMMAND)
        until_ms = now_ms + self._limits.probe_timeout_s * 1000
        probe = self._probes[agent_id] = _Probe(kernel_id, info.incarnation, until_ms)
        self._kernels.add(kernel_id)

        async def create() -> None:
            try:
                await gateway.create_kernel(agent_id, info.incarnation, launch)
            except SokovanError as error:
                probe.error = error
                raise

        # Its outcome is taken by the next sweep, and need not wake a cycle.
        self._requests.begin(AgentRequestKey(PROBE, agent_id, kernel_id, 1), create, notify=Notify.NOTHING)

    def _take_outcomes(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for agent_id, probe in list(self._probes.items()):
            if isinstance(probe.error, AgentRefused) and probe.error.reason not in TEMPORARY:
                self._conclude(agent_id, succeeded=False, detail=probe.error.problem)
                continue
            if probe.error is not None:
                self._held_ms[agent_id] = now_ms + _AGAIN_MS
                self._remove(agent_id)
                continue
            state = self._reports.state(agent_id)
            listed = [one for one in (state.kernels if state else ()) if one.kernel_id == probe.kernel_id]
            code = listed[0].exit_code if listed else None
            if code is not None:
                self._conclude(agent_id, succeeded=code == 0, detail=f"the probe ended with code {code}")
            elif now_ms >= probe.until_ms:
                limit_s = self._limits.probe_timeout_s
                self._conclude(agent_id, succeeded=False, detail=f"the probe did not end within {limit_s} s")

    def _conclude(self, agent_id: AgentId, *, succeeded: bool, detail: str) -> None:
        findings = self._of(agent_id)
        findings.probe, findings.detail = succeeded, "" if succeeded else detail[:DETAIL_MAX]
        probe, gateway = self._remove(agent_id), self._gateway
        # One that hangs is an orphan from now on, and is stopped as such.
        self._requests.begin(
            AgentRequestKey(FORGET, agent_id, probe.kernel_id, 1),
            lambda: gateway.forget_kernel(agent_id, probe.incarnation, probe.kernel_id, 1),
            notify=Notify.NOTHING,
        )

    def _remove(self, agent_id: AgentId) -> _Probe:
        probe = self._probes.pop(agent_id)
        self._kernels.discard(probe.kernel_id)
        return probe
