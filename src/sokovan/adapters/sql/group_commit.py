"""Group commit: calls that arrive while a transaction is under way share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

C = TypeVar("C")
I = TypeVar("I")  # noqa: E741  # an item
R = TypeVar("R")


class GroupCommit(Generic[C, I, R]):
    """Runs `commit(context, items)` for all who wait, one at a time.

    Whoever gets the lock works for everybody with the same context. Nobody waits
    for a timer: a lone caller goes at once.
    """

    def __init__(self, commit: Callable[[C, Sequence[Sequence[I]]], Awaitable[list[R]]], *, at_most: int) -> None:
        self._commit, self._at_most = commit, at_most
        self._lock = asyncio.Lock()
        self._waiting: list[tuple[C, Sequence[I], asyncio.Future[R]]] = []

    async def submit(self, context: C, items: Sequence[I]) -> R:
        """What the commit gave for these items, once it is done."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((context, items, future))
        async with self._lock:
            if not future.done():
                # A caller that is cancelled must not take the others' answers with it.
                await asyncio.shield(asyncio.ensure_future(self._serve(future)))
        return await future

    async def _serve(self, mine: asyncio.Future[R]) -> None:
        while not mine.done():
            context = self._waiting[0][0]
            batch = self._next_batch(context)
            try:
                results = await self._commit(context, [items for _, items, _ in batch])
            except BaseException as error:
                for _, _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                continue
            for (_, _, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)

    def _next_batch(self, context: C) -> list[tuple[C, Sequence[I], asyncio.Future[R]]]:
        """The oldest calls with this context, as many as fit; at least one."""
        batch: list[tuple[C, Sequence[I], asyncio.Future[R]]] = []
        size = 0
        for entry in list(self._waiting):
            if entry[0] != context or (batch and size + len(entry[1]) > self._at_most):
                continue
            batch.append(entry)
            size += len(entry[1])
            self._waiting.remove(entry)
        return batch
