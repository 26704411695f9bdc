"""Leases: who leads, by the store's time, with an epoch that fences latecomers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sokovan.ports.storage import Fence


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that is held. `epoch` rises with every change of holder."""

    name: str
    holder: str
    epoch: int
    expires_ms: int

    @property
    def fence(self) -> Fence:
        """What a write of this leader carries."""
        return Fence(lease=self.name, epoch=self.epoch)


class Leases(Protocol):
    """At most one holder per name, by the store's time."""

    async def acquire(self, name: str, *, holder: str, ttl_s: float) -> Lease | None:
        """Take a free or expired lease, or extend one's own; None if another has it.

        `holder` is unique to one life of one process: the same text is the same holder.
        """

    async def renew(self, lease: Lease, *, ttl_s: float) -> Lease | None:
        """Extend; None if the epoch has moved on, and then the holder must step down."""

    async def release(self, lease: Lease) -> None:
        """Give it back before it expires. Late calls do nothing."""

    async def current(self, name: str) -> Lease | None:
        """Who holds it now; None if nobody does or it has expired."""
