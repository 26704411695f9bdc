"""Wraps a store and calls back after each write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sokovan.ports.storage import BatchedWork, Fence, Outbox, Store, StoreRetention, UnitOfWork

T = TypeVar("T")
R = TypeVar("R")


class NotifyingStore:
    """The Store port, with a callback after each commit: the outbox may have events."""

    def __init__(self, store: Store, written: Callable[[], None]) -> None:
        self._store, self._written = store, written

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]], *, fence: Fence | None = None) -> R:
        """See the port."""
        try:
            return await self._store.run(work, fence=fence)
        finally:
            # Also after a failure: the commit may have happened although its response was lost.
            self._written()

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        """See the port."""
        try:
            return await self._store.run_batched(work, item)
        finally:
            self._written()

    async def read(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        """See the port."""
        return await self._store.read(work)

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
        """See the port."""
        await self._store.close()
