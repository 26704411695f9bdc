"""What a cycle decided. One port applies it; nothing here has happened yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.scheduling.snapshot import Reservation
from sokovan.scheduling.trace import Verdict


class Placement(NamedTuple):
    """A kernel goes to an agent."""

    kernel_id: KernelId
    session_id: SessionId
    agent_id: AgentId


class Eviction(NamedTuple):
    """A running kernel makes room for another session."""

    kernel_id: KernelId
    session_id: SessionId
    agent_id: AgentId
    for_session: SessionId


@dataclass(frozen=True)
class SchedulingPlan:
    """The outcome of one cycle: what to do, and a verdict for all who waited.

    `domains` is the HyperNode that each placed session with a closeness now lies in.
    """

    placements: tuple[Placement, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    cursors: Mapping[str, AgentId] = field(default_factory=dict)
    domains: Mapping[SessionId, str] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()

    @cached_property
    def by_session(self) -> dict[SessionId, Verdict]:
        """The verdicts by session."""
        return {verdict.session_id: verdict for verdict in self.verdicts}
