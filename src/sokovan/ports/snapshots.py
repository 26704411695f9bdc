"""The source of the snapshots that scheduling cycles work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, ScalingGroupName, SessionId
from sokovan.domain.records import SessionRecord
from sokovan.ports.storage import Fence
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import SystemSnapshot


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """The outcome of recording a plan.

    `evicted` are the sessions that lost kernels, as they are now. `refused` are sessions for
    which nothing was evicted, because what the decision was based on has changed, and why; `spared`
    those that were not evicted for a booking.
    """

    evicted: tuple[SessionRecord, ...] = ()
    refused: Mapping[SessionId, str] = field(default_factory=dict)
    spared: Mapping[SessionId, str] = field(default_factory=dict)


class CatalogMarks(NamedTuple):
    """The versions of what a decision was based on, and an allocation checks again."""

    topology: int = 0
    bookings: int = 0


class SnapshotSource(Protocol):
    """An incrementally updated view of the system for the scheduler.

    A refresh reads only what changed since the last one. One source is used by one task
    at a time. `history` is the past usage of the scaling group, as of the last change of
    each row. `is_behind` says whether the last refresh left new sessions for the next one.
    `bookings` are those that had not ended then.
    """

    is_behind: bool
    bookings: Sequence[Booking]

    async def refresh(self, *, sessions: bool = True, at_once: int | None = None) -> bool:
        """Read what was committed since the last call; whether anything changed.

        Of more new sessions than `at_once` so many are read, users in turn; the others count as
        if they came later.

        Without `sessions`, which cost the most, they and what their kernels release stay as
        they were: no snapshot may be taken until the next refresh with them, which misses
        nothing. The first refresh always reads them.
        """

    async def snapshot(self, scaling_group: ScalingGroupName) -> SystemSnapshot:
        """The state as of the last refresh. Raises ObjectNotFound."""

    def scaling_groups(self) -> Sequence[ScalingGroupName]:
        """The name of every scaling group as of the last refresh, in order."""

    def groups(self) -> Sequence[ScalingGroup]:
        """Every scaling group as of the last refresh, by name."""

    def agents(self) -> Mapping[AgentId, AgentInfo]:
        """Every agent as of the last refresh, without what its kernels release."""

    def incarnation(self, agent_id: AgentId) -> int | None:
        """The incarnation of an agent as of the last refresh."""

    async def record_plan(
        self, scaling_group: ScalingGroupName, plan: SchedulingPlan, *, fence: Fence | None = None
    ) -> RecordedPlan:
        """Merge a plan into the carried state, and evict its victims, in one transaction.

        The state is merged by `CarriedState.after`. Evictions are verified again: those for
        a session are committed with its reservation, or both are dropped; what leaves for a booking is
        committed session by session, if the booking still needs it. Raises FencedOut.
        """

    @property
    def marks(self) -> CatalogMarks:
        """The versions of topology and bookings as of the last refresh, for the allocator."""
