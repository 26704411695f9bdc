"""Whether a kernel group may start, or wait for what is being released."""

from __future__ import annotations

from sokovan.scheduling.extensions import GangView, SchedulingPlugin

LABEL = "hold"


class HoldPlugin(SchedulingPlugin):
    """A kernel group with a kernel labelled `hold=true` is passed over; the others go on."""

    name = "hold"

    def group_ready(self, gang: GangView) -> bool:
        """Whether the group may start with the kernels that have a place now."""
        return not _held(gang)

    def group_pipelined(self, gang: GangView) -> bool:
        """Whether the group may wait with kernels whose place is being released."""
        return not _held(gang)


def _held(gang: GangView) -> bool:
    """Whether a kernel of the group is on hold. A group is named by the value of a label."""
    members = (kernel for kernel in gang.session.kernels if gang.group in kernel.labels.values())
    return any(kernel.labels.get(LABEL) == "true" for kernel in members)
