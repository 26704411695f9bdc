"""SchedulingPlan: the decisions of a cycle, not yet applied.

The allocation port applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.lifecycle.eviction import CONSOLIDATE, EvictionCost
from sokovan.scheduling.snapshot import Reservation
from sokovan.scheduling.trace import DecisionTrace, Verdict


class Placement(NamedTuple):
    """A kernel to start on an agent."""

    kernel_id: KernelId
    session_id: SessionId
    agent_id: AgentId


class Eviction(NamedTuple):
    """A running kernel to stop, to make room for another session.

    `action` is the one that chose it, `lost_s` the work that it loses in slot seconds. By `rule`
    it may be evicted. `cost` is that of all victims of the session, `runner_up` that of the
    next best set, if the search compared one. It ends `notice_ms` after its notice at the latest; None
    for the grace period of its session. One `for_booking` makes room for that, and for no session.
    """

    kernel_id: KernelId
    session_id: SessionId
    agent_id: AgentId
    for_session: SessionId
    action: str = ""
    lost_s: int = 0
    rule: str = ""
    cost: EvictionCost | None = None
    runner_up: EvictionCost | None = None
    notice_ms: int | None = None
    for_booking: str = ""


class Relocation(NamedTuple):
    """A running kernel to stop and start on another agent, for another session."""

    kernel_id: KernelId
    session_id: SessionId
    from_agent: AgentId
    agent_id: AgentId
    for_session: SessionId
    lost_s: int = 0
    cost: EvictionCost | None = None
    runner_up: EvictionCost | None = None
    notice_ms: int | None = None


class QueueShare(NamedTuple):
    """The share of a queue in one slot, as it was before the cycle.

    `requested` is in use or waited for. `deserved` is None for a slot in which the queue has
    no share; `guarantee` is part of `limit`, the most that it may use.
    """

    queue: QueueName
    slot: str
    allocated: int
    requested: int
    deserved: int | None
    guarantee: int
    limit: int

    @property
    def borrowed(self) -> int:
        """The part in use beyond the share."""
        return max(0, self.allocated - (self.deserved or 0))


@dataclass(frozen=True)
class SchedulingPlan:
    """The outcome of one cycle: what to do, and a verdict for every waiting session.

    `reservations` are all that remain, `cursors` only those that moved. `domains` is the
    HyperNode that each placed session with a topology constraint is in, `group_domains` that
    of each kernel group, by partition and label value: `stages/0`. `loans` is the queue that
    lends each placed session what it runs on. `shares` are those of the queues with a share or
    sessions, and no part of the decision.
    """

    placements: tuple[Placement, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    moves: tuple[Relocation, ...] = ()
    cursors: Mapping[str, AgentId] = field(default_factory=dict)
    domains: Mapping[SessionId, str] = field(default_factory=dict)
    group_domains: Mapping[SessionId, Mapping[str, str]] = field(default_factory=dict)
    loans: Mapping[SessionId, QueueName] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    shares: tuple[QueueShare, ...] = field(default=(), compare=False)

    def moved_kernels(self) -> list[Eviction]:
        """The kernels that move, as evictions from where they run."""
        return [
            Eviction(
                one.kernel_id,
                one.session_id,
                one.from_agent,
                one.for_session,
                CONSOLIDATE,
                one.lost_s,
                "move",
                one.cost,
                one.runner_up,
                one.notice_ms,
            )
            for one in self.moves
        ]

    @cached_property
    def trace(self) -> DecisionTrace:
        """The verdicts by session."""
        return DecisionTrace(self.verdicts)
