"""Configuration of the session coordinator: its ports, intervals and timeouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sokovan.domain.cluster.agent_health import HealthLimits
from sokovan.domain.owners.outputs import OutputLimits
from sokovan.orchestrator.agent_requests import AgentRequestLimits
from sokovan.orchestrator.coordinator import LEASE_TTL_S
from sokovan.orchestrator.image_reports import ImageReports
from sokovan.orchestrator.quarantine import QuarantineLimits
from sokovan.orchestrator.sessions.scheduler import ALLOCATION_BATCH_MAX, Decide, decide_in_thread
from sokovan.ports.agent_gateway import AgentGateway
from sokovan.ports.agent_states import AgentStateCache
from sokovan.ports.allocation import SchedulingAllocator
from sokovan.ports.environment import Clock, IdSource, Telemetry
from sokovan.ports.hints import Hints
from sokovan.ports.leases import Leases
from sokovan.ports.secrets import SecretBox
from sokovan.ports.snapshots import SnapshotSource
from sokovan.ports.storage import Store, StoreRetention


@dataclass(frozen=True, slots=True)
class HeartbeatTimeouts:
    """Seconds without a heartbeat to SUSPECT, and from SUSPECT to LOST."""

    suspect_s: float = 15.0
    lost_s: float = 45.0

    @property
    def lost_after_ms(self) -> float:
        """Time from the last heartbeat to LOST."""
        return (self.suspect_s + self.lost_s) * 1000


@dataclass(frozen=True, slots=True)
class MassFailureGuard:
    """When so many agents are lost at once that their sessions are kept for a while.

    It triggers if more than `share` of at least `agents_min` agents are lost within
    `window_s`, and keeps the sessions of those agents for `hold_s`.
    """

    share: float = 0.3
    agents_min: int = 4
    window_s: float = 60.0
    hold_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Retention:
    """How long, and for how many kernels per agent, logs of ended kernels are kept."""

    seconds: float = 3600.0
    kernels_max: int = 1000


@dataclass(frozen=True, slots=True)
class Timing:
    """Intervals and timeouts of the coordinator.

    `min_interval_s` separates the starts of two cycles; `session_lost_s` is how long the
    sessions of a LOST agent are kept; `allocation_batch_max` is how many sessions are
    started in one transaction.
    """

    min_interval_s: float = 0.02
    long_cycle_s: float = 10.0
    sweep_s: float = 1.0
    handler_timeout_s: float = 60.0
    lease_ttl_s: float = LEASE_TTL_S
    session_lost_s: float = 60.0
    allocation_batch_max: int = ALLOCATION_BATCH_MAX
    heartbeats: HeartbeatTimeouts = field(default_factory=HeartbeatTimeouts)
    mass_failures: MassFailureGuard = field(default_factory=MassFailureGuard)
    health: HealthLimits = field(default_factory=HealthLimits)
    retention: Retention = field(default_factory=Retention)
    requests: AgentRequestLimits = field(default_factory=AgentRequestLimits)
    quarantine: QuarantineLimits = field(default_factory=QuarantineLimits)
    outputs: OutputLimits = field(default_factory=OutputLimits)
    records: StoreRetention = field(default_factory=StoreRetention)


@dataclass(slots=True)
class TimingInForce:
    """The timing that handlers read at each use; replaced when a setting changes."""

    current: Timing


def _ignore(_handler: str, _error: Exception) -> None:
    """Drop a failure report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Ports and callbacks of the coordinator.

    `images` is shared with the agent registry, which updates it from heartbeats.
    `on_failure` receives the name of a handler that raised, and the error.
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
    secrets: SecretBox
    images: ImageReports = field(default_factory=ImageReports)
    decide: Decide = decide_in_thread
    on_failure: Callable[[str, Exception], None] = _ignore
