"""Group commit: concurrent calls share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")
_Entry: TypeAlias = tuple[C, Sequence[T], "asyncio.Future[R]"]


class GroupCommit(Generic[C, T, R]):
    """Runs `commit(context, items)` for all waiting callers, one batch at a time.

    The caller that gets the lock commits for all callers with the same context. There
    is no timer: a single caller proceeds at once.
    """

    def __init__(self, commit: Callable[[C, Sequence[Sequence[T]]], Awaitable[list[R]]], *, at_most: int) -> None:
        self._commit, self._at_most = commit, at_most
        self._lock = asyncio.Lock()
        self._waiting: list[_Entry[C, T, R]] = []

    async def submit(self, context: C, items: Sequence[T]) -> R:
        """Commit these items and return their result.

        The items of a caller that is cancelled meanwhile may or may not be committed.
        """
        entry: _Entry[C, T, R] = (context, items, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            # Shielded: the cancellation of one caller must not fail the others or release the lock early.
            return await asyncio.shield(asyncio.ensure_future(self._serve(entry[2])))
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
                entry[2].cancel()
            raise

    async def _serve(self, mine: asyncio.Future[R]) -> R:
        async with self._lock:
            while not mine.done():
                await self._commit_batch(self._next_batch(self._waiting[0][0]))
        return await mine

    async def _commit_batch(self, batch: Sequence[_Entry[C, T, R]]) -> None:
        try:
            results = await self._commit(batch[0][0], [items for _, items, _ in batch])
        except asyncio.CancelledError:
            for _, _, future in batch:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # every error is passed to its callers
            for _, _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, _, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)

    def _next_batch(self, context: C) -> list[_Entry[C, T, R]]:
        """The oldest calls with this context, as many as fit; at least one."""
        batch: list[_Entry[C, T, R]] = []
        size = 0
        for entry in list(self._waiting):
            if entry[0] != context or (batch and size + len(entry[1]) > self._at_most):
                continue
            batch.append(entry)
            size += len(entry[1])
            self._waiting.remove(entry)
        return batch
