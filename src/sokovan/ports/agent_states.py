"""Cache of the latest heartbeat of each agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.eviction import Checkpoint


@dataclass(frozen=True, slots=True)
class KernelReport:
    """The state of one kernel, as its agent reports it.

    `exit_code` is set once it has ended, `reason` if more is known about the end. `idle_s`
    is how long it has been idle, if that is measured; it grows with every report and
    makes no difference between two of them. Nor does `checkpoint`, the last one it reported.
    """

    kernel_id: KernelId
    attempt: int
    running: bool
    exit_code: int | None = None
    reason: str = ""
    idle_s: int | None = field(default=None, compare=False)
    checkpoint: Checkpoint | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """The use of a device as its agent measured it last; None where unknown."""

    use_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_bytes: int | None = None
    temperature_c: int | None = None

    @property
    def memory_percent(self) -> int | None:
        """How much of its memory is in use."""
        if self.memory_used_bytes is None or not self.memory_bytes:
            return None
        return min(100, self.memory_used_bytes * 100 // self.memory_bytes)


@dataclass(frozen=True, slots=True)
class AgentState:
    """One heartbeat: the full state of the agent, not a difference.

    `sequence` counts the heartbeats of one incarnation. With `partial`, kernels are left
    out of a report that would be too large: the absence of one means nothing. `load` (cpu_percent,
    memory_bytes, ...), `devices` and `heard_ms`, when the manager received it in milliseconds
    since 1970, are for display only; no decision depends on them. `faults` are devices that should
    get no new kernels, with the reason.
    """

    agent_id: AgentId
    incarnation: int
    sequence: int
    kernels: tuple[KernelReport, ...] = ()
    load: Mapping[str, int] = field(default_factory=dict)
    heard_ms: int = 0
    partial: bool = False
    faults: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, DeviceFigures] = field(default_factory=dict)


class AgentStateReader(Protocol):
    """Reads the latest heartbeats of agents."""

    async def get(self, agent_id: AgentId) -> AgentState | None:
        """The latest state, or None if it is unknown or stale."""

    async def fresh(self) -> Mapping[AgentId, AgentState]:
        """Every agent whose state is not stale."""


class AgentStateCache(AgentStateReader, Protocol):
    """The latest heartbeat of each agent, until it expires.

    Losing the whole cache costs one heartbeat period. An unreachable cache reads as empty
    and ignores writes; it never raises.
    """

    async def put(self, state: AgentState, *, ttl_s: float) -> bool:
        """Store this state for `ttl_s` unless a later one is known; whether it was.

        Later means a higher incarnation, or a higher sequence of the same incarnation.
        """

    async def drop(self, agent_id: AgentId) -> None:
        """Remove an agent that has left."""

    async def close(self) -> None:
        """Close connections."""
