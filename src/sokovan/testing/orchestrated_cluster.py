"""A cluster with a coordinator, in virtual time, on a real store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.agent_registry import AgentRegistry
from sokovan.orchestrator.sessions.config import Dependencies, Timing
from sokovan.orchestrator.sessions.coordinator import ScheduleCoordinator
from sokovan.testing.acting_agents import CAPACITY, ActingAgent, ActingAgents
from sokovan.testing.clock import VirtualClock
from sokovan.testing.cluster_checks import ClusterChecks
from sokovan.testing.simple_work import decide_at_once, work_spec
from sokovan.testing.stored_cluster import BY_USER, StoredCluster
from sokovan.testing.telemetry import RecordedTelemetry

# Real time for the store, before a round counts as waiting for virtual time.
STORE_S = 0.1
STEP_S = 0.05
ROUND_STEPS_MAX = 2_000


class OrchestratedCluster(ClusterChecks):
    """Simulated agents, submitted sessions, and a coordinator run by the test."""

    def __init__(self, stored: StoredCluster, clock: VirtualClock, timing: Timing | None = None) -> None:
        self.stored, self.clock, self.store = stored, clock, stored.store
        self.hints, self.cache = InProcessHints(clock), InProcessAgentStates(clock)
        self.telemetry = RecordedTelemetry()
        self.registry = AgentRegistry(self.store, self.cache, hints=self.hints, clock=clock)
        self.agents = ActingAgents(self.registry, clock)
        self.failures: list[tuple[str, Exception]] = []
        self._timing, self._terms = timing, 0
        self.coordinator = self.new_coordinator()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str = "sqlite://", *, timing: Timing | None = None) -> AsyncIterator[OrchestratedCluster]:
        """A cluster without agents; invariants are checked when it is closed."""
        clock = VirtualClock()
        async with StoredCluster.open(url, clock=clock) as stored:
            cluster = cls(stored, clock, timing)
            yield cluster
            await cluster.coordinator.close()
            await cluster.check_invariants()

    def new_coordinator(self, **options: Any) -> ScheduleCoordinator:
        """A coordinator like that of another process; options replace its dependencies."""
        self._terms += 1
        parts: dict[str, Any] = {
            "store": self.store,
            "leases": self.stored.leases,
            "hints": self.hints,
            "snapshots": SqlSnapshots(self.store),
            "allocator": self.stored.allocator,
            "agents": self.cache,
            "gateway": self.agents,
            "clock": self.clock,
            "ids": SortableIds(self.clock),
            "telemetry": self.telemetry,
            "secrets": self.stored.secrets,
            "images": self.registry.images,
            "decide": decide_at_once,
            "on_failure": lambda name, error: self.failures.append((name, error)),
        }
        return ScheduleCoordinator(
            Dependencies(**{**parts, **options}), holder=f"manager-{self._terms}", timing=self._timing
        )

    async def fail_over(self, **options: Any) -> ScheduleCoordinator:
        """Replace the coordinator; the new one leads when the lease expires."""
        self.coordinator = self.new_coordinator(**options)
        await self.clock.advance(11)
        return self.coordinator

    async def agent(self, name: str, *, slots: Mapping[str, int] = CAPACITY) -> ActingAgent:
        """Add an agent."""
        return await self.agents.join(name, slots=slots)

    async def submit(self, id_: str, /, **options: Any) -> SessionRecord:
        """Enqueue a session; options are those of `work_spec`."""
        spec = work_spec(id_, **options)
        record = await self.store.run(lambda unit: unit.sessions.enqueue(spec, BY_USER))
        await self.hints.set("sessions")
        return record

    async def stop(self, name: str, *, forced: bool = False) -> SessionRecord:
        """Request that a session stops."""
        return await self.stored.stop(name, Goal.FORCE if forced else Goal.STOP)

    async def tick(self) -> bool:
        """Run one round. Virtual time advances only while the round waits for it."""
        round_ = asyncio.ensure_future(self.coordinator.tick())
        for _ in range(ROUND_STEPS_MAX):
            await asyncio.wait({round_}, timeout=STORE_S)
            if round_.done():
                return round_.result()
            await self.clock.advance(STEP_S)
        round_.cancel()
        raise AssertionError("a round did not end")

    async def settle(self, *, rounds_max: int = 50) -> None:
        """Run rounds until there is nothing more to do."""
        for _ in range(rounds_max):
            hinted = await self.hints.take("sessions")
            if not await self.tick() and not hinted:
                return
        raise AssertionError(f"not settled after {rounds_max} rounds")

    async def pass_time(self, seconds: float, *, step_s: float = 1.0) -> None:
        """Let time pass, with heartbeats and rounds."""
        for _ in range(round(seconds / step_s)):
            await self.clock.advance(step_s)
            await self.agents.beat()
            await self.settle()
