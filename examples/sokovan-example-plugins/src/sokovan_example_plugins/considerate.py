"""Which sessions may evict others, and which kernels are spared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sokovan.domain.session import SessionType
from sokovan.scheduling.extensions import EvictableKernel, GangView, SchedulingPlugin
from sokovan.scheduling.snapshot import SessionWorkload


class ConsideratePlugin(SchedulingPlugin):
    """Notebooks evict no other, no user preempts the own work, and an hour of work is not thrown away."""

    name = "considerate"
    lost_max_s: ClassVar[int] = 3600

    def session_starving(self, gang: GangView) -> bool:
        """An interactive session waits for room."""
        return gang.session.session_type is not SessionType.INTERACTIVE

    def preemptable(self, taker: SessionWorkload, victims: Sequence[EvictableKernel]) -> Sequence[EvictableKernel]:
        """Kernels of other users only.

        A victim that is left out stays; a gang of which one kernel stays can only shrink.
        """
        return [victim for victim in victims if victim.session.owner.user != taker.owner.user]

    def evictable(
        self, taker: SessionWorkload, action: str, victims: Sequence[EvictableKernel]
    ) -> Sequence[EvictableKernel]:
        """Kernels that would lose less than an hour of a slot, whatever the action."""
        del taker, action
        return [victim for victim in victims if victim.lost_s < self.lost_max_s]
