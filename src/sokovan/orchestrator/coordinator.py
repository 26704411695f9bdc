"""The protocol of coordinators, and leadership by lease.

Any number of managers may run; one of them leads. Each write carries the epoch of the
lease, so that a former leader that was paused cannot write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from sokovan.orchestrator.periodic_tasks import TaskSpec
from sokovan.ports.environment import Clock
from sokovan.ports.leases import Lease, Leases
from sokovan.ports.storage import Fence

LEASE_TTL_S = 10.0
# Parts of the lease time after which a leader renews it, and another manager looks whether it has expired.
_RENEW_PART, _LOOK_PART = 1 / 3, 1 / 8
# Set when sessions need a cycle.
SESSIONS_HINT = "sessions"
# Set when deployments or their replicas need a cycle, and when routes do.
DEPLOYMENTS_HINT, ROUTES_HINT = "deployments", "routes"


class Coordinator(Protocol):
    """Reconciles one kind of object with its goal: sessions, deployments, routes."""

    def tasks(self) -> Sequence[TaskSpec]:
        """The periodic tasks of this coordinator."""

    async def close(self) -> None:
        """Release the lease, and cancel requests under way."""


class Leadership:
    """The lease of one coordinator, renewed while it leads.

    `holder` is unique to one run of one process.
    """

    def __init__(self, leases: Leases, *, name: str, holder: str, clock: Clock, ttl_s: float = LEASE_TTL_S) -> None:
        self.name, self.ttl_s = name, ttl_s
        self._leases, self._holder, self._clock = leases, holder, clock
        self._lease: Lease | None = None
        self._renewed_ms: float | None = None
        self._lock = asyncio.Lock()

    @property
    def fence(self) -> Fence | None:
        """The fence for writes; None if another manager leads."""
        return None if self._lease is None else self._lease.fence

    @property
    def due_s(self) -> float:
        """Seconds between two renewals, or between two looks at the lease of another."""
        return self.ttl_s * (_LOOK_PART if self._lease is None else _RENEW_PART)

    async def held(self) -> Fence | None:
        """Acquire or renew the lease if due; the fence. Raises StoreUnavailable."""
        async with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._renewed_ms is None or now_ms - self._renewed_ms >= self.due_s * 1000:
                await self._renew(first=self._renewed_ms is None)
                self._renewed_ms = now_ms
        return self.fence

    def step_down(self) -> None:
        """Another manager has taken over; look again later."""
        self._lease = None
        self._renewed_ms = self._clock.monotonic_ms()

    async def release(self) -> None:
        """Release the lease, so that another manager need not wait for its expiry."""
        async with self._lock:
            lease, self._lease = self._lease, None
            if lease is not None:
                await self._leases.release(lease)

    async def _renew(self, *, first: bool) -> None:
        if self._lease is not None:
            self._lease = await self._leases.renew(self._lease, ttl_s=self.ttl_s)
        if self._lease is None and (first or await self._is_free()):
            self._lease = await self._leases.acquire(self.name, holder=self._holder, ttl_s=self.ttl_s)

    async def _is_free(self) -> bool:
        """Whether no other manager leads; unlike acquiring, this locks nothing."""
        current = await self._leases.current(self.name)
        return current is None or current.holder == self._holder
