"""What the session coordinator is given: ports, and a few numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.orchestrator.agent_requests import AgentRequestLimits
from sokovan.orchestrator.coordinator import LEASE_TTL_S
from sokovan.orchestrator.image_reports import ImageReports
from sokovan.orchestrator.sessions.handlers.garbage_collection import Retention
from sokovan.orchestrator.sessions.handlers.heartbeats import HeartbeatTimeouts
from sokovan.orchestrator.sessions.handlers.lost_agents import MassFailureGuard
from sokovan.orchestrator.sessions.handlers.start import Launches
from sokovan.orchestrator.sessions.launch import launches
from sokovan.orchestrator.sessions.scheduler import Decide, decide_in_thread
from sokovan.ports.agent_gateway import AgentGateway
from sokovan.ports.agent_states import AgentStateCache
from sokovan.ports.allocation import SchedulingAllocator
from sokovan.ports.environment import Clock, IdSource, Telemetry
from sokovan.ports.hints import Hints
from sokovan.ports.leases import Leases
from sokovan.ports.snapshots import SnapshotSource
from sokovan.ports.storage import Store


def _say_nothing(_handler: str, _error: Exception) -> None:
    """Where nobody listens."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How often the coordinator works, and how long things may take."""

    apart_s: float = 0.02
    long_cycle_s: float = 10.0
    sweep_s: float = 1.0
    handler_s: float = 60.0
    lease_ttl_s: float = LEASE_TTL_S
    lost_s: float = 60.0
    patience: HeartbeatTimeouts = field(default_factory=HeartbeatTimeouts)
    brake: MassFailureGuard = field(default_factory=MassFailureGuard)
    retention: Retention = field(default_factory=Retention)
    errands: AgentRequestLimits = field(default_factory=AgentRequestLimits)
    quarantine: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Everything that reaches beyond the coordinator.

    `images` is shared with whoever hears heartbeats. `failed` hears of a kind of work
    that raised, by its name.
    """

    store: Store
    leases: Leases
    hints: Hints
    snapshots: SnapshotSource
    allocator: SchedulingAllocator
    agents: AgentStateCache
    gateway: AgentGateway
    clock: Clock
    ids: IdSource
    telemetry: Telemetry
    images: ImageReports = field(default_factory=ImageReports)
    decide: Decide = decide_in_thread
    launches: Launches = launches
    failed: Callable[[str, Exception], None] = _say_nothing
