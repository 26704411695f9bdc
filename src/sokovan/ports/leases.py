"""Leases for leader election, by the store's time, with a fencing epoch."""

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
        """The fence for writes of this leader."""
        return Fence(lease=self.name, epoch=self.epoch)


class Leases(Protocol):
    """At most one holder per name, by the store's time."""

    async def acquire(self, name: str, *, holder: str, ttl_s: float) -> Lease | None:
        """Acquire a free or expired lease, or extend one's own; None if it is held.

        `holder` is unique to one run of one process: the same text is the same holder.
        """

    async def renew(self, lease: Lease, *, ttl_s: float) -> Lease | None:
        """Extend the lease; None if the epoch has changed: the holder must step down."""

    async def release(self, lease: Lease) -> None:
        """Release the lease before it expires. Late calls do nothing."""

    async def current(self, name: str) -> Lease | None:
        """The current lease; None if it is free or expired."""
