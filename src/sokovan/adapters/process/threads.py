"""Threads for what blocks, by kind: what hangs holds up nothing of another kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum, auto
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Work(StrEnum):
    """What may take long, each for a reason of its own."""

    START = auto()  # as long as a shim takes to begin
    COMMAND = auto()  # as long as a shim takes to answer
    END = auto()  # as long as processes take to die
    LOOK = auto()


_COUNTS = {Work.START: 16, Work.COMMAND: 8, Work.END: 8, Work.LOOK: 8}


class Threads:
    """The threads of one runtime, made when first needed.

    The event loop has some too, but the journal and decisions of others may need those.
    """

    def __init__(self) -> None:
        self._pools = {kind: ThreadPoolExecutor(count, f"kernel-{kind}") for kind, count in _COUNTS.items()}

    async def run(self, kind: Work, work: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        """Do this in a thread. Whoever gives up waiting leaves it to end by itself."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pools[kind], lambda: work(*arguments, **options))

    def close(self) -> None:
        """Take nothing more; what has begun goes on to its end."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
