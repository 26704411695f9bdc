"""A command in a pretended kernel: it repeats its input, or acts as if it ran."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self

from sokovan.adapters.fake_agents.machine import KILLED, FakeKernel
from sokovan.adapters.fake_agents.script import SHELLS, conduct_of
from sokovan.ports.environment import Clock

# Programs that say what they hear.
ECHOES = SHELLS | {"cat"}


class FakeExecution:
    """Execution port without anything behind it.

    `found` gives the kernel that it runs in, or raises what the port says; `words` are
    the first thing that it says: whoever waits for output must know that none will come.
    """

    def __init__(
        self,
        found: Callable[[], FakeKernel],
        clock: Clock,
        command: Sequence[str],
        *,
        words: bytes = b"",
    ) -> None:
        self._found, self._clock, self._command, self._words = found, clock, tuple(command), words
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._ending: asyncio.Task[int] | None = None
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        """Start it. Raises AgentUnreachable, AgentRefused."""
        self._ending = asyncio.ensure_future(self._run(self._found()))
        return self

    async def __aexit__(self, *_details: object) -> None:
        """End it, if it has not ended."""
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)

    async def write(self, data: bytes) -> None:
        """Give it input; no bytes is the end of input."""
        self._input.put_nowait(data)

    async def resize(self, *, rows: int, columns: int) -> None:
        """Nothing shows on a pretended terminal, whatever its size."""

    async def output(self) -> AsyncIterator[bytes]:
        """What it says, until it ends."""
        while (piece := await self._said.get()) is not None:
            yield piece
        self._said.put_nowait(None)

    async def wait(self) -> int:
        """Its exit code; 137 if it ended with its kernel."""
        if self._ending is None:
            return KILLED
        return await asyncio.shield(self._ending)

    async def _run(self, kernel: FakeKernel) -> int:
        acting = asyncio.ensure_future(self._act())
        over = asyncio.ensure_future(kernel.over.wait())
        both: set[asyncio.Future[Any]] = {acting, over}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return acting.result() if acting.done() else KILLED
        finally:
            for task in both:
                task.cancel()
            self._said.put_nowait(None)

    async def _act(self) -> int:
        program = self._command[0].rpartition("/")[2] if self._command else ""
        if program in ECHOES and len(self._command) == 1:
            if program in SHELLS:
                self._tell()
            while data := await self._input.get():
                self._said.put_nowait(data)
            return 0
        self._tell()
        conduct = conduct_of(self._command)
        if conduct.lasts_s is None:
            await asyncio.Event().wait()
        await self._clock.sleep(conduct.lasts_s or 0.0)
        return conduct.exit_code

    def _tell(self) -> None:
        if self._words:
            self._said.put_nowait(self._words)
