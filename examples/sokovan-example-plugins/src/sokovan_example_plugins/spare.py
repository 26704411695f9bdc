"""Whether a session may start with what is placed, or wait with what is reserved."""

from __future__ import annotations

from typing import ClassVar

from sokovan.domain.session import SessionType
from sokovan.scheduling.extensions import GangView, SchedulingPlugin


class SparePlugin(SchedulingPlugin):
    """Inference sessions start with a spare kernel; interactive ones hold nothing back."""

    name = "spare"
    kernels_min: ClassVar[int] = 2

    def session_ready(self, gang: GangView) -> bool:
        """An inference session needs two kernels; its own minimum holds anyway."""
        return gang.session.session_type is not SessionType.INFERENCE or self._spared(gang.running + gang.placed)

    def session_pipelined(self, gang: GangView) -> bool:
        """Room that is being released is held for batch, and for inference with a spare.

        A session that may not start with what is placed is asked about here as well,
        so this must not be more generous than `session_ready`.
        """
        if gang.session.session_type is SessionType.INFERENCE:
            return self._spared(gang.running + gang.placed + gang.reserved)
        return gang.session.session_type is SessionType.BATCH

    def _spared(self, kernels: int) -> bool:
        return kernels >= self.kernels_min
