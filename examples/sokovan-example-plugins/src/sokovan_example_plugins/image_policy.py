"""Rejects a kernel once instead of once per agent."""

from __future__ import annotations

from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload


class ImagePolicyPlugin(SchedulingPlugin):
    """Requires images to name a version, because `latest` changes over time."""

    name = "image-policy"

    def pre_predicate(self, session: SessionWorkload, kernel: KernelWorkload) -> str | None:
        """A reason for an image without a version; None accepts the kernel."""
        del session
        # A registry may have a port, so only the part after the last slash is checked.
        tag = kernel.image.rpartition("/")[2].partition(":")[2]
        if kernel.image and tag in {"", "latest"}:
            return f"image {kernel.image} names no version; use one such as {kernel.image.removesuffix(':latest')}:1.0"
        return None
