"""Takes the reads of each user in turn, so that none delays all others.

A long list or a dry run takes as long as hundreds of small requests. Of one user, a few reads run at a
time and the rest wait in order; a read of another user does not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import PRINCIPAL
from sokovan.api.errors import TooManyRequests

# Reads of one user that wait; more are refused.
WAITING_MAX = 500
RETRY_AFTER_S = 1


@dataclass(slots=True)
class _UserQueue:
    """The reads of one user; `count` includes those that wait."""

    gate: asyncio.Semaphore
    count: int = 0


class ReadQueues:
    """The reads under way and waiting in one API process, by user."""

    def __init__(self, *, at_once: int) -> None:
        self._at_once = at_once
        self._users: dict[str, _UserQueue] = {}

    async def __call__(self, request: Request, read: Callable[[Request], Awaitable[Response]]) -> Response:
        """The response to a read, in the turn of its user. Raises TooManyRequests."""
        principal = request.scope.get(PRINCIPAL)
        if principal is None:
            return await read(request)
        async with self.taken(principal.user):
            return await read(request)

    @asynccontextmanager
    async def taken(self, user: str) -> AsyncIterator[None]:
        """Wait for the turn of a read, and hold it. Raises TooManyRequests."""
        queue = self._users.get(user)
        if queue is None:
            queue = self._users[user] = _UserQueue(asyncio.Semaphore(self._at_once))
        if queue.count >= self._at_once + WAITING_MAX:
            raise TooManyRequests(f"{WAITING_MAX} reads of user {user} wait already", wait_s=RETRY_AFTER_S)
        queue.count += 1
        try:
            async with queue.gate:
                yield
        finally:
            queue.count -= 1
            if not queue.count:
                del self._users[user]
