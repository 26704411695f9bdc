"""Shields transactions from request cancellation.

A client that disconnects may cancel its request in the middle of a statement, which would
cost a database connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sokovan.orchestrator.uncancellable_tasks import UncancellableTasks
from sokovan.ports.storage import BatchedWork, Fence, Outbox, Store, StoreRetention, UnitOfWork

T = TypeVar("T")
R = TypeVar("R")


class UncancellableStore:
    """The Store port; a cancelled caller returns at once, its transaction completes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks = UncancellableTasks()

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]], *, fence: Fence | None = None) -> R:
        """See the port."""
        return await self._tasks.run(self._store.run(work, fence=fence))

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        """See the port."""
        return await self._tasks.run(self._store.run_batched(work, item))

    async def read(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        """See the port."""
        return await self._tasks.run(self._store.read(work))

    async def prune(self, *, older_than_s: float) -> int:
        """See the port."""
        return await self._store.prune(older_than_s=older_than_s)

    async def expire(self, keep: StoreRetention) -> bool:
        """See the port."""
        return await self._store.expire(keep)

    @property
    def outbox(self) -> Outbox:
        """See the port."""
        return self._store.outbox

    async def close(self) -> None:
        """See the port; waits for running transactions first."""
        await self.settle()
        await self._store.close()

    async def settle(self) -> None:
        """Wait for transactions whose callers were cancelled."""
        await self._tasks.settle()
