"""Where a scheduling cycle gets what it looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.ports.storage import Fence
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import SystemSnapshot


class SnapshotSource(Protocol):
    """The system as the core wants to see it, kept up to date by what changed.

    A load after which nothing was written reads next to nothing; a load after a few
    changes reads those. One source is used by one task at a time. What users used in
    the past (`history`) is not kept yet, so fair share looks at the present only.
    """

    async def refresh(self) -> bool:
        """Read what was committed since the last call; whether there was anything."""

    async def snapshot(self, scaling_group: ScalingGroupName) -> SystemSnapshot:
        """The state as of the last refresh. Raises NotFound for an unknown scaling group."""

    def scaling_groups(self) -> Sequence[ScalingGroupName]:
        """Every scaling group as of the last refresh, by name."""

    def incarnation(self, agent_id: AgentId) -> int | None:
        """The incarnation of an agent as of the last refresh."""

    async def remember(
        self, scaling_group: ScalingGroupName, plan: SchedulingPlan, *, fence: Fence | None = None
    ) -> None:
        """Store what the next cycle needs of this one. Raises FencedOut."""

    @property
    def topology(self) -> int:
        """The mark of the topology as of the last refresh, for the allocator to compare."""
