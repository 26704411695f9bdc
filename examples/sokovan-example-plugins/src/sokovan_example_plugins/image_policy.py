"""Why a kernel can go nowhere, said once and not for every agent."""

from __future__ import annotations

from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload


class ImagePolicyPlugin(SchedulingPlugin):
    """Images must name a version: `latest` means another one tomorrow."""

    name = "image-policy"

    def pre_predicate(self, session: SessionWorkload, kernel: KernelWorkload) -> str | None:
        """A sentence for an image without a version; None lets the kernel pass."""
        del session
        # A registry may have a port, so that only what follows the last slash is looked at.
        tag = kernel.image.rpartition("/")[2].partition(":")[2]
        if kernel.image and tag in {"", "latest"}:
            return f"image {kernel.image} names no version; use one such as {kernel.image.removesuffix(':latest')}:1.0"
        return None
