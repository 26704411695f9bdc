"""Thread pools for blocking work: kinds of work do not block each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum, auto
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Work(StrEnum):
    """Kinds of blocking work."""

    START = auto()  # waits for a shim to start
    COMMAND = auto()  # waits for a shim to answer
    END = auto()  # waits for processes to end
    LOOK = auto()


_COUNTS = {Work.START: 16, Work.COMMAND: 8, Work.END: 8, Work.LOOK: 8}


class Threads:
    """The thread pools of one runtime, created on first use.

    The event loop's own pool is left to the journal and other work.
    """

    def __init__(self) -> None:
        self._pools = {kind: ThreadPoolExecutor(count, f"kernel-{kind}") for kind, count in _COUNTS.items()}

    async def run(self, kind: Work, work: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        """Run work in a thread. A cancelled caller does not interrupt it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pools[kind], lambda: work(*arguments, **options))

    def close(self) -> None:
        """Accept no more work; running work is finished."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
