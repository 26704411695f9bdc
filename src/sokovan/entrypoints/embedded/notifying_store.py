"""A store that lets it be known when something was written to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sokovan.ports.storage import BatchedWork, Fence, Outbox, Store, UnitOfWork

T = TypeVar("T")
R = TypeVar("R")


class NotifyingStore:
    """The Store port, with a word after every commit: events may wait in the outbox."""

    def __init__(self, store: Store, written: Callable[[], None]) -> None:
        self._store, self._written = store, written

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]], *, fence: Fence | None = None) -> R:
        """See the port."""
        try:
            return await self._store.run(work, fence=fence)
        finally:
            # Also where it failed: the commit may have happened without our hearing of it.
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

    @property
    def outbox(self) -> Outbox:
        """See the port."""
        return self._store.outbox

    async def close(self) -> None:
        """See the port."""
        await self._store.close()
