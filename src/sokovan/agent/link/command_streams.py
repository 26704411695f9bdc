"""Further commands in kernels, each on a socket that the agent dials for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from sokovan.agent.link.manager_link import ManagerAddress, dialled
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelExecution, KernelRuntime
from sokovan.wire.exec_messages import PIECE_BYTES_MAX, CommandEnded, InputEnded, Resized, word_of, word_text
from sokovan.wire.frames import STREAM_PATH, OpenStream
from sokovan.wire.link_codec import MalformedFrame

STREAMS_MAX = 64
# What a command leaves behind may hold its output open for ever; this long without a byte, and nobody waits on.
LINGER_S = 0.5


class StreamUnavailable(SokovanError):
    """A command was not started: too many run, or the manager cannot be dialled."""

    code = "stream-unavailable"
    hint = "try again; if it stays so, see whether the agent reaches the manager's address for further sockets"


class CommandStreams:
    """Runs commands for managers, as many as there may be at once."""

    def __init__(self, runtime: KernelRuntime) -> None:
        self._runtime = runtime
        self._open = 0

    async def run(self, address: ManagerAddress, ask: OpenStream, opened: Callable[[], None]) -> None:
        """A command from start to end; `opened` is called when both ends are there.

        Raises StreamUnavailable and what the runtime raises, before that.
        """
        if self._open >= STREAMS_MAX:
            raise StreamUnavailable(f"{self._open} commands run through this agent, {STREAMS_MAX} may")
        self._open += 1
        try:
            kernel_id = KernelId(ask.kernel_id)
            execution = self._runtime.execute(kernel_id, ask.attempt, ask.command, terminal=ask.terminal)
            async with execution, dialled(address, STREAM_PATH + ask.stream_id) as socket:
                opened()
                await self._pump(execution, socket)
        except (OSError, TimeoutError, WebSocketException) as problem:
            raise StreamUnavailable(f"{address.url}: {str(problem) or type(problem).__name__}") from problem
        finally:
            self._open -= 1

    async def _pump(self, execution: KernelExecution, socket: ClientConnection) -> None:
        """Both ways until the command has ended, or the manager has hung up."""
        both = {asyncio.ensure_future(self._say(execution, socket)), asyncio.ensure_future(_hear(execution, socket))}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with suppress(ConnectionClosed, MalformedFrame):
                    task.result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _say(self, execution: KernelExecution, socket: ClientConnection) -> None:
        moved = asyncio.Event()
        output = asyncio.ensure_future(_send_output(execution, socket, moved))
        try:
            exit_code = await execution.wait()
            while not output.done():
                moved.clear()
                await asyncio.wait({output}, timeout=LINGER_S)
                if not moved.is_set():
                    break
            if output.done():
                output.result()
            await socket.send(word_text(CommandEnded(exit_code)))
        finally:
            output.cancel()
            await asyncio.gather(output, return_exceptions=True)


async def _send_output(execution: KernelExecution, socket: ClientConnection, moved: asyncio.Event) -> None:
    async for piece in execution.output():
        for start in range(0, len(piece), PIECE_BYTES_MAX):
            await socket.send(piece[start : start + PIECE_BYTES_MAX])
            moved.set()


async def _hear(execution: KernelExecution, socket: ClientConnection) -> None:
    async for content in socket:
        if isinstance(content, bytes):
            await execution.write(content)
            continue
        match word_of(content):
            case InputEnded():
                await execution.write(b"")
            case Resized() as word:
                await execution.resize(rows=word.rows, columns=word.columns)
            case _:
                pass
