"""Whether a session may start with its placements, or wait with its reservations."""

from __future__ import annotations

from typing import ClassVar

from sokovan.domain.session import SessionType
from sokovan.scheduling.extensions import GangView, SchedulingPlugin


class SparePlugin(SchedulingPlugin):
    """Requires a spare kernel for inference, and no reservations for interactive sessions."""

    name = "spare"
    kernels_min: ClassVar[int] = 2

    def session_ready(self, gang: GangView) -> bool:
        """Whether an inference session has two kernels; its own minimum applies as well."""
        return gang.session.session_type is not SessionType.INFERENCE or self._has_spare(gang.running + gang.placed)

    def session_pipelined(self, gang: GangView) -> bool:
        """Whether to reserve resources: for batch, and for inference with a spare.

        Called also for a session that `session_ready` refuses, so this must not be
        less strict than `session_ready`.
        """
        if gang.session.session_type is SessionType.INFERENCE:
            return self._has_spare(gang.running + gang.placed + gang.reserved)
        return gang.session.session_type is SessionType.BATCH

    def _has_spare(self, kernels: int) -> bool:
        return kernels >= self.kernels_min
