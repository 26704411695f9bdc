"""Asks the manager about keys, each once at a time, however many requests wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from sokovan.proxy.context import ProxyContext
from sokovan.proxy.control.manager_calls import ManagerAway
from sokovan.wire.serving.route_table import KeyEntry
from sokovan.wire.serving.serving_codec import MalformedMessage

# A manager that takes longer counts as away.
ANSWER_S = 5.0
# How long the routes of a key are waited for: one of a new deployment may be here before the table that has it.
ROUTES_S = 3.0


class KeyLookups:
    """Questions under way; a request that waits is called when its verdict is there."""

    def __init__(self, context: ProxyContext, fetch: Callable[[bytes], Awaitable[KeyEntry | None]]) -> None:
        self._context, self._fetch = context, fetch
        self._waiting: dict[bytes, list[Callable[[], None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, secret: bytes, known: Callable[[], None]) -> None:
        """Ask about a key; `known` is called when there is a verdict."""
        waiting = self._waiting.get(secret)
        if waiting is not None:
            waiting.append(known)
            return
        self._waiting[secret] = [known]
        task = self._context.loop.create_task(self._asked(secret))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _asked(self, secret: bytes) -> None:
        context = self._context
        try:
            async with asyncio.timeout(ANSWER_S):
                entry = await self._fetch(secret)
            if entry is not None:
                await self._until_routed(entry)
            context.verdicts.answered(secret, entry, context.now_ms())
        except (ManagerAway, MalformedMessage, TimeoutError):
            context.verdicts.unanswered(secret, context.now_ms())
        finally:
            for known in self._waiting.pop(secret, ()):
                known()

    async def _until_routed(self, entry: KeyEntry) -> None:
        context = self._context
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ROUTES_S):
                while not all(one in context.table.routes for one in entry.deployments):
                    context.table_changed.clear()
                    await context.table_changed.wait()
