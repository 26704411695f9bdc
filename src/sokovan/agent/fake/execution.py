"""A command in a fake kernel: echoes its input, or is simulated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self

from sokovan.agent.fake.fake_agent import FakeKernel
from sokovan.agent.fake.script import SHELLS, script_of
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KILLED

# Programs that echo their input.
ECHOES = SHELLS | {"cat"}


class FakeExecution:
    """A simulated KernelExecution.

    `find` returns the kernel that it runs in, or raises the port's errors; `notice` is its
    first output, and says that no other will follow.
    """

    def __init__(
        self,
        find: Callable[[], FakeKernel],
        clock: Clock,
        command: Sequence[str],
        *,
        notice: bytes = b"",
    ) -> None:
        self._find, self._clock, self._command, self._notice = find, clock, tuple(command), notice
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._ending: asyncio.Task[int] | None = None
        self._output: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        """Start it. Raises AgentUnreachable, AgentRefused."""
        self._ending = asyncio.ensure_future(self._run(self._find()))
        return self

    async def __aexit__(self, *_details: object) -> None:
        """Stop it, unless it has ended."""
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)

    async def write(self, data: bytes) -> None:
        """Send input; empty bytes end the input."""
        self._input.put_nowait(data)

    async def resize(self, *, rows: int, columns: int) -> None:
        """A fake terminal has no size."""

    async def output(self) -> AsyncIterator[bytes]:
        """Its output, until it ends."""
        while (piece := await self._output.get()) is not None:
            yield piece
        self._output.put_nowait(None)

    async def wait(self) -> int:
        """Its exit code; 137 if it ended with its kernel."""
        if self._ending is None:
            return KILLED
        return await asyncio.shield(self._ending)

    async def _run(self, kernel: FakeKernel) -> int:
        simulation = asyncio.ensure_future(self._simulate())
        kernel_ended = asyncio.ensure_future(kernel.ended.wait())
        tasks: set[asyncio.Future[Any]] = {simulation, kernel_ended}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return simulation.result() if simulation.done() else KILLED
        finally:
            for task in tasks:
                task.cancel()
            self._output.put_nowait(None)

    async def _simulate(self) -> int:
        program = self._command[0].rpartition("/")[2] if self._command else ""
        if program in ECHOES and len(self._command) == 1:
            if program in SHELLS:
                self._send_notice()
            while data := await self._input.get():
                self._output.put_nowait(data)
            return 0
        self._send_notice()
        script = script_of(self._command)
        if script.lasts_s is None:
            await asyncio.Event().wait()
        await self._clock.sleep(script.lasts_s or 0.0)
        return script.exit_code

    def _send_notice(self) -> None:
        if self._notice:
            self._output.put_nowait(self._notice)
