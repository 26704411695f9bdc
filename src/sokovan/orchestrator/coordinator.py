"""What every coordinator has: tasks, and a lease that lets one at a time work.

Any number of managers may run. Each write of a coordinator carries the epoch of its
lease, so that one who was paused and believes to lead still changes nothing.
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


class Coordinator(Protocol):
    """Works towards what is wanted in one domain: sessions, deployments, routes."""

    def tasks(self) -> Sequence[TaskSpec]:
        """What it wants to be called for, and when."""

    async def close(self) -> None:
        """Let go: of the lease, and of requests that are under way."""


class Leadership:
    """The right to do the work of one coordinator, for as long as it is renewed.

    `holder` is unique to one life of one process.
    """

    def __init__(self, leases: Leases, *, name: str, holder: str, clock: Clock, ttl_s: float = LEASE_TTL_S) -> None:
        self.name, self.ttl_s = name, ttl_s
        self._leases, self._holder, self._clock = leases, holder, clock
        self._lease: Lease | None = None
        self._asked_ms: float | None = None
        self._asking = asyncio.Lock()

    @property
    def fence(self) -> Fence | None:
        """What a write carries now; None if another leads."""
        return None if self._lease is None else self._lease.fence

    async def held(self) -> Fence | None:
        """Take or renew the lease if it is time for that. Raises StoreUnavailable."""
        async with self._asking:
            now_ms = self._clock.monotonic_ms()
            if self._asked_ms is None or now_ms - self._asked_ms >= self.ttl_s * 1000 / 3:
                await self._ask()
                self._asked_ms = now_ms
        return self.fence

    def step_down(self) -> None:
        """Another has taken over; try again when it is time."""
        self._lease = None
        self._asked_ms = self._clock.monotonic_ms()

    async def release(self) -> None:
        """Give the lease back, so that another need not wait for its end."""
        async with self._asking:
            lease, self._lease = self._lease, None
            if lease is not None:
                await self._leases.release(lease)

    async def _ask(self) -> None:
        if self._lease is not None:
            self._lease = await self._leases.renew(self._lease, ttl_s=self.ttl_s)
        if self._lease is None:
            self._lease = await self._leases.acquire(self.name, holder=self._holder, ttl_s=self.ttl_s)
