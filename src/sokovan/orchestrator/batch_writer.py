"""Writes many objects in few transactions; a bad object does not fail the others.

The size of a transaction is limited so that other writers do not wait long. If one object
makes it fail, the batch is halved until that object is isolated; the rest is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sokovan.domain.errors import FencedOut, StoreUnavailable
from sokovan.ports.storage import Fence, Store, UnitOfWork

BATCH_MAX = 100

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class WriteResult(Generic[T, R]):
    """The outcome of a write: results, and the objects that could not be written."""

    results: list[R] = field(default_factory=list)
    failures: list[tuple[T, Exception]] = field(default_factory=list)


class BatchWriter:
    """Writes in batches under the `fence` of the current leader.

    `transactions` counts the transactions begun.
    """

    def __init__(self, store: Store, *, batch_max: int = BATCH_MAX) -> None:
        self.store = store
        self.fence: Fence | None = None
        self.transactions = 0
        self._batch_max = batch_max

    async def write(
        self, items: Sequence[T], work: Callable[[UnitOfWork, Sequence[T]], Awaitable[Sequence[R]]]
    ) -> WriteResult[T, R]:
        """Run `work` for all items. Raises FencedOut, StoreUnavailable."""
        written: WriteResult[T, R] = WriteResult()
        for start in range(0, len(items), self._batch_max):
            await self._batch(items[start : start + self._batch_max], work, written)
        return written

    async def _batch(
        self,
        items: Sequence[T],
        work: Callable[[UnitOfWork, Sequence[T]], Awaitable[Sequence[R]]],
        written: WriteResult[T, R],
    ) -> None:
        self.transactions += 1
        try:
            written.results += await self.store.run(lambda unit: work(unit, items), fence=self.fence)
        except (FencedOut, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001  # one item must not fail the others
            if len(items) == 1:
                written.failures.append((items[0], error))
                return
            middle = len(items) // 2
            await self._batch(items[:middle], work, written)
            await self._batch(items[middle:], work, written)
