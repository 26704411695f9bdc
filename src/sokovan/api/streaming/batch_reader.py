"""Reads for many callers at a time, so that the store is not read once for each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BatchReader(Generic[K, V]):
    """Reads the values of keys; callers that come meanwhile share the next read.

    Each key is read once for all of them. A value is never older than the call: a read that
    has begun before is not waited for.
    """

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]], *, at_most: int) -> None:
        self._read, self._at_most = read, at_most
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def get(self, keys: Iterable[K]) -> dict[K, V | None]:
        """The values of these keys; None for one that does not exist.

        Raises what the read raises.
        """
        futures = {key: self._future(key) for key in keys}
        if futures and self._reading is None:
            # It begins after all callers that are woken together have asked.
            self._reading = asyncio.create_task(self._read_all())
        # Shielded: the cancellation of one caller must not fail the others.
        return {key: await asyncio.shield(future) for key, future in futures.items()}

    def _future(self, key: K) -> asyncio.Future[V | None]:
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        return self._waiting[key]

    async def _read_all(self) -> None:
        batch: dict[K, asyncio.Future[V | None]] = {}
        try:
            while self._waiting:
                batch = {key: self._waiting.pop(key) for key in list(islice(self._waiting, self._at_most))}
                await self._read_batch(batch)
        finally:
            self._reading = None
            for future in (*batch.values(), *self._waiting.values()):
                future.cancel()  # without effect on those that are done
            self._waiting.clear()

    async def _read_batch(self, batch: Mapping[K, asyncio.Future[V | None]]) -> None:
        try:
            found = await self._read(list(batch))
        except Exception as error:  # noqa: BLE001  # every error is passed to its callers
            for future in batch.values():
                future.set_exception(error)
                future.exception()  # all callers may have gone
            return
        for key, future in batch.items():
            future.set_result(found.get(key))
