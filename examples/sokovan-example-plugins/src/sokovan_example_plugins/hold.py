"""Whether a kernel group may start, or wait for resources that are being released."""

from __future__ import annotations

from sokovan.scheduling.extensions import GangView, SchedulingPlugin

LABEL = "hold"


class HoldPlugin(SchedulingPlugin):
    """Skips kernel groups with a kernel labelled `hold=true`; the others are placed."""

    name = "hold"

    def group_ready(self, gang: GangView) -> bool:
        """Whether the group may start with the kernels that are placed."""
        return not _held(gang)

    def group_pipelined(self, gang: GangView) -> bool:
        """Whether the group may keep a reservation on resources that are being released."""
        return not _held(gang)


def _held(gang: GangView) -> bool:
    """Whether a kernel of the group is on hold. The name of a group is the value of a label."""
    members = (kernel for kernel in gang.session.kernels if gang.group in kernel.labels.values())
    return any(kernel.labels.get(LABEL) == "true" for kernel in members)
