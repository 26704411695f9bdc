"""A store whose units of work are finished, whatever becomes of whoever asked.

A client that hangs up ends its stream at any moment, also in the middle of a
statement. Half a statement costs a connection, which the next request would have used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sokovan.ports.storage import BatchedWork, Fence, Outbox, Store, UnitOfWork

T = TypeVar("T")
R = TypeVar("R")


class UncancellableStore:
    """The Store port; who is cancelled leaves at once, and his work is finished."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._begun: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]], *, fence: Fence | None = None) -> R:
        """See the port."""
        return await self._finished(self._store.run(work, fence=fence))

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        """See the port."""
        return await self._finished(self._store.run_batched(work, item))

    async def read(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        """See the port."""
        return await self._finished(self._store.read(work))

    async def prune(self, *, older_than_s: float) -> int:
        """See the port."""
        return await self._store.prune(older_than_s=older_than_s)

    @property
    def outbox(self) -> Outbox:
        """See the port."""
        return self._store.outbox

    async def close(self) -> None:
        """See the port; what was begun comes to its end first."""
        await self.settle()
        await self._store.close()

    async def settle(self) -> None:
        """Wait for what nobody waits for any more."""
        await asyncio.gather(*self._begun, return_exceptions=True)

    async def _finished(self, work: Coroutine[Any, Any, R]) -> R:
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._begun.discard(task)
        # Asked for here, so that nobody complains about an error that nobody waited for.
        if not task.cancelled():
            task.exception()
