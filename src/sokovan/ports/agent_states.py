"""What agents last said of themselves, for as long as it is fresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sokovan.domain.ids import AgentId, KernelId


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One kernel as its agent sees it.

    `exit_code` once it has ended, and `reason` where more is known of its end.
    """

    kernel_id: KernelId
    attempt: int
    running: bool
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AgentState:
    """One heartbeat: everything that the agent holds, not what changed.

    `sequence` counts the heartbeats of one incarnation. `load` are figures for
    people (cpu_percent, memory_bytes, ...), which no decision rests on; so is `heard_ms`,
    when the manager heard it, in milliseconds since 1970.
    """

    agent_id: AgentId
    incarnation: int
    sequence: int
    kernels: tuple[KernelReport, ...] = ()
    load: Mapping[str, int] = field(default_factory=dict)
    heard_ms: int = 0


class AgentStateCache(Protocol):
    """The latest heartbeat of each agent, as long as it is fresh.

    Losing the whole cache costs one heartbeat period and nothing else. A cache that
    does not answer reads as empty and takes no writes; it never raises for that.
    """

    async def put(self, state: AgentState, *, ttl_s: float) -> bool:
        """Keep this state for `ttl_s`, unless a later one is known; whether it was kept.

        Later is: a higher incarnation, or a higher sequence of the same.
        """

    async def get(self, agent_id: AgentId) -> AgentState | None:
        """The latest state, or None if it is unknown or stale."""

    async def fresh(self) -> Mapping[AgentId, AgentState]:
        """Every agent whose state is not stale."""

    async def drop(self, agent_id: AgentId) -> None:
        """Forget an agent that has left."""

    async def close(self) -> None:
        """Let go of connections."""
