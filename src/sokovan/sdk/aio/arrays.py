"""Job arrays, for the async client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Unpack

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.sessions import AsyncSessions
from sokovan.sdk.core import array_calls
from sokovan.sdk.core.array_calls import ArrayListOptions
from sokovan.sdk.core.paging import Paging
from sokovan.sdk.core.states import ENDED, FINAL, STATES
from sokovan.wire.api.arrays import ArrayView

_LIVE = [state.lower() for state in STATES if state not in FINAL]


class AsyncArrays:
    """Operations on job arrays; a `ref` is an id, a name, or a unique prefix of one."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self, ref: str) -> ArrayView:
        """One array, with the counts of its sessions."""
        return await self._connection.send(array_calls.get(ref))

    def list(self, *, limit: int | None = None, **filters: Unpack[ArrayListOptions]) -> AsyncIterator[ArrayView]:
        """List arrays, newest first; pages are fetched as they are consumed.

        Filters are those of ArrayListOptions.
        """
        listing = partial(array_calls.listing, filters)
        return self._connection.pages(Paging(listing, limit=limit))

    async def wait(self, ref: str, *, timeout: float | None = None) -> ArrayView:
        """Wait until all sessions have ended, at most `timeout` seconds.

        Raises StillWaiting.
        """
        sessions, environment = AsyncSessions(self._connection), self._connection.environment
        array = (await self.get(ref)).id
        ends_s = None if timeout is None else environment.now_s() + timeout
        while True:
            # Each turn waits for the newest of them, which is often the last to end.
            newest = ""
            async for view in sessions.list(array=array, status=_LIVE, limit=1):
                newest = view.id
            if not newest:
                return await self.get(array)
            left_s = None if ends_s is None else max(0.0, ends_s - environment.now_s())
            await sessions.wait(newest, ENDED, timeout=left_s)

    async def stop(self, ref: str, *, forced: bool = False) -> ArrayView:
        """Mark all sessions of an array for termination; does not wait for their end."""
        return await self._connection.send(array_calls.stop(ref, forced=forced))

    async def release(self, ref: str, *, gate: str | None = None) -> ArrayView:
        """Release all held sessions of an array, or only one gate of them."""
        return await self._connection.send(array_calls.release(ref, gate=gate))
