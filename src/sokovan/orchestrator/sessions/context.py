"""State and tools that the handlers of the session coordinator share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import FencedOut, SokovanError, StoreUnavailable
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.orchestrator.agent_requests import AgentReply, AgentRequests, RequestBackoff
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.handler import DeadlinePassed, Handler, within
from sokovan.orchestrator.quarantine import Quarantine
from sokovan.orchestrator.sessions.agent_reports import AgentReports, ReportDiff
from sokovan.orchestrator.sessions.config import Dependencies, TimingInForce
from sokovan.orchestrator.sessions.scheduler import Scheduler
from sokovan.orchestrator.sessions.session_cache import SessionCache, SessionCacheReader, SessionChanged
from sokovan.orchestrator.sessions.session_writer import SessionWriter, by_coordinator
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.ports.agent_gateway import AgentGateway, AgentUnreachable
from sokovan.ports.agent_states import AgentStateCache
from sokovan.ports.environment import Clock, Telemetry
from sokovan.ports.storage import Store

# The history of a session mentions an unreachable agent at this failure in a row; metrics count all of them.
_NOTED_FAILURE = 3


@dataclass(slots=True)
class CycleInput:
    """Input of the handlers in one cycle.

    `long` cycles compare everything, others only what changed. `agents` are the agents
    as the store has them.
    """

    long: bool = False
    diff: ReportDiff = field(default_factory=ReportDiff)
    agents: Mapping[AgentId, AgentInfo] = field(default_factory=dict)


# A handler of the session coordinator.
SessionHandler: TypeAlias = Handler[CycleInput]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerContext:
    """Shared state of the handlers; `clear` resets it at the end of a leadership term."""

    sessions: SessionCache
    reader: SessionCacheReader
    batches: BatchWriter
    writer: SessionWriter
    agents: AgentStateCache
    reports: AgentReports
    requests: AgentRequests
    backoff: RequestBackoff
    quarantine: Quarantine
    scheduler: Scheduler
    store: Store
    gateway: AgentGateway
    clock: Clock
    telemetry: Telemetry
    on_failure: Callable[[str, Exception], None]
    timing: TimingInForce
    # Kernels that probe agents: they belong to no session, and are no orphans.
    probes: set[KernelId] = field(default_factory=set)

    @classmethod
    def create(
        cls,
        dependencies: Dependencies,
        timing: TimingInForce,
        *,
        wake: Callable[[], Awaitable[None]],
        changed: SessionChanged,
    ) -> HandlerContext:
        """Build the context; `wake` is called for late agent replies."""
        clock, store = dependencies.clock, dependencies.store
        sessions, batches = SessionCache(changed), BatchWriter(store)
        quarantine = Quarantine(clock, limits=timing.current.quarantine)
        requests = AgentRequests(clock, wake=wake, limits=timing.current.requests)
        verdicts = VerdictCache(batches, clock)
        scheduler = Scheduler(
            dependencies.snapshots,
            dependencies.allocator,
            verdicts,
            clock=clock,
            decide=dependencies.decide,
            batch_max=lambda: timing.current.allocation_batch_max,
        )
        bulk, plans = sessions.bulk, scheduler.plans
        plans.known = sessions.get
        # One that is not read yet is most likely of the bulk.
        plans.hides = lambda one: bulk.hidden and (sessions.get(one) is None or bulk.hides(one))
        return cls(
            sessions=sessions,
            reader=SessionCacheReader(sessions, store),
            batches=batches,
            writer=SessionWriter(batches, sessions, quarantine),
            agents=dependencies.agents,
            reports=AgentReports(),
            requests=requests,
            backoff=requests.backoff,
            quarantine=quarantine,
            scheduler=scheduler,
            store=store,
            gateway=dependencies.gateway,
            clock=clock,
            telemetry=dependencies.telemetry,
            on_failure=dependencies.on_failure,
            timing=timing,
        )

    def next_due_s(self) -> float | None:
        """Seconds until a retry or a scheduling cycle is due; None if none is."""
        dues = (self.backoff.next_due_s(), self.quarantine.next_due_s(), self.scheduler.next_due_s())
        return min((due for due in dues if due is not None), default=None)

    async def clear(self) -> None:
        """Cancel pending requests and forget all cached state."""
        self.batches.fence = None
        await self.requests.close()
        self.sessions.clear()
        self.reports.clear()
        self.quarantine.clear()
        self.scheduler.clear()

    async def run(self, handler: SessionHandler, cycle: CycleInput, *, timeout_s: float) -> bool:
        """Run one handler; report a failure or a timeout without stopping the others."""
        try:
            return await within(handler.handle(cycle), timeout_s, clock=self.clock)
        except (FencedOut, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001  # one handler must not stop the others
            kind = "timeout" if isinstance(error, DeadlinePassed) else "error"
            self.telemetry.count("handler_failures_total", handler=handler.name, kind=kind)
            self.on_failure(handler.name, error)
            return False

    async def request_failed(self, handler: str, reply: AgentReply, session_id: SessionId) -> None:
        """Record a failed request, which is retried, in the session's history."""
        error = reply.error
        if error is None:
            return
        self.telemetry.count("requests_failed_total", kind=reply.key.kind)
        if not isinstance(error, SokovanError):
            self.quarantine.failed(session_id, handler=handler, error=error)
        elif (
            isinstance(error, AgentUnreachable | DeadlinePassed) and self.backoff.failures(reply.key) == _NOTED_FAILURE
        ):
            detail = f"{reply.key.kind}: {error.message}"
            await self.writer.note([session_id], by_coordinator("agent-unreachable", detail))
