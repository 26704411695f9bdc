"""Shields transactions from request cancellation.

A client that disconnects may cancel its request in the middle of a statement, which would
cost a database connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sokovan.ports.storage import BatchedWork, Fence, Outbox, Store, UnitOfWork

T = TypeVar("T")
R = TypeVar("R")


class UncancellableStore:
    """The Store port; a cancelled caller returns at once, its transaction completes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]], *, fence: Fence | None = None) -> R:
        """See the port."""
        return await self._shielded(self._store.run(work, fence=fence))

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        """See the port."""
        return await self._shielded(self._store.run_batched(work, item))

    async def read(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        """See the port."""
        return await self._shielded(self._store.read(work))

    async def prune(self, *, older_than_s: float) -> int:
        """See the port."""
        return await self._store.prune(older_than_s=older_than_s)

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
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _shielded(self, work: Coroutine[Any, Any, R]) -> R:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        # Retrieve the exception, so that asyncio does not log it as never retrieved.
        if not task.cancelled():
            task.exception()
