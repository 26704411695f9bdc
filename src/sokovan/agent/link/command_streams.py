"""Bulk requests: logs, use, files, and commands in kernels over separate sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from sokovan.agent.journal_records import KernelKey
from sokovan.agent.link.file_requests import answered
from sokovan.agent.link.manager_link import ManagerAddress, ManagerLink, dialled
from sokovan.agent.link.translation import reply_of
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import KernelId
from sokovan.ports.kernel_files import KernelFiles
from sokovan.ports.runtime import KernelExecution, KernelRuntime
from sokovan.wire.exec_messages import (
    CHUNK_BYTES_MAX,
    CommandEnded,
    InputEnded,
    Resized,
    decode_message,
    encode_message,
)
from sokovan.wire.frames import (
    STREAM_PATH,
    Done,
    ListFiles,
    MeasureKernel,
    OpenStream,
    PlaceUpload,
    ReadFile,
    ReadLog,
    Reply,
    Request,
)
from sokovan.wire.link_codec import MalformedFrame

# Managers give each user a part of these.
STREAMS_MAX = 512
LOG_BYTES_MAX = 256 << 10
# Background processes of a command may keep its output open; stop waiting after this long without a byte.
LINGER_S = 0.5


class StreamUnavailable(SokovanError):
    """A command was not started: too many run, or the manager cannot be reached."""

    code = "stream-unavailable"
    hint = "retry; if it persists, check that the agent can open further connections to the manager"


class CommandStreams:
    """Runs commands for managers, up to a limit."""

    def __init__(self, runtime: KernelRuntime) -> None:
        self._runtime = runtime
        self._open = 0

    async def run(self, address: ManagerAddress, request: OpenStream, opened: Callable[[], None]) -> None:
        """Run a command to its end; `opened` is called once both ends are connected.

        Raises StreamUnavailable and the runtime's errors before that.
        """
        if self._open >= STREAMS_MAX:
            raise StreamUnavailable(f"{self._open} commands run through this agent, the limit is {STREAMS_MAX}")
        self._open += 1
        try:
            async with (
                self._requested(request) as execution,
                dialled(address, STREAM_PATH + request.stream_id) as socket,
            ):
                opened()
                await self._pump(execution, socket)
        except (OSError, TimeoutError, WebSocketException) as problem:
            raise StreamUnavailable(f"{address.url}: {str(problem) or type(problem).__name__}") from problem
        finally:
            self._open -= 1

    def _requested(self, request: OpenStream) -> KernelExecution:
        kernel_id = KernelId(request.kernel_id)
        if request.port:
            return self._runtime.connect(kernel_id, request.attempt, request.port)
        return self._runtime.execute(kernel_id, request.attempt, request.command, terminal=request.terminal)

    async def _pump(self, execution: KernelExecution, socket: ClientConnection) -> None:
        """Copy in both directions until the command ends or the manager disconnects."""
        tasks = {
            asyncio.ensure_future(self._send_outcome(execution, socket)),
            asyncio.ensure_future(_receive_input(execution, socket)),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with suppress(ConnectionClosed, MalformedFrame):
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_outcome(self, execution: KernelExecution, socket: ClientConnection) -> None:
        progressed = asyncio.Event()
        output = asyncio.ensure_future(_send_output(execution, socket, progressed))
        try:
            exit_code = await execution.wait()
            while not output.done():
                progressed.clear()
                await asyncio.wait({output}, timeout=LINGER_S)
                if not progressed.is_set():
                    break
            if output.done():
                output.result()
            await socket.send(encode_message(CommandEnded(exit_code)))
        finally:
            output.cancel()
            await asyncio.gather(output, return_exceptions=True)


async def _send_output(execution: KernelExecution, socket: ClientConnection, progressed: asyncio.Event) -> None:
    async for piece in execution.output():
        for start in range(0, len(piece), CHUNK_BYTES_MAX):
            await socket.send(piece[start : start + CHUNK_BYTES_MAX])
            progressed.set()


async def _receive_input(execution: KernelExecution, socket: ClientConnection) -> None:
    async for content in socket:
        if isinstance(content, bytes):
            await execution.write(content)
            continue
        match decode_message(content):
            case InputEnded():
                await execution.write(b"")
            case Resized() as message:
                await execution.resize(rows=message.rows, columns=message.columns)
            case _:
                pass


class BulkService:
    """Answers requests from the runtime alone, concurrently."""

    def __init__(self, runtime: KernelRuntime, files: KernelFiles | None = None) -> None:
        self._runtime, self._files = runtime, files
        self._streams = CommandStreams(runtime)

    async def serve(self, link: ManagerLink, request: Request) -> None:
        """Execute a request and answer it with its result or problem.

        Requests do not outlive their link, and a reopened link has another number.
        """
        opening, number = link.number, request.number
        try:
            await self._served(link, request, opening)
        except SokovanError as problem:
            code, message = problem.code, problem.message
        except Exception as problem:  # noqa: BLE001  # a failing runtime does not end the agent; the manager gets the error
            code, message = "runtime-failure", repr(problem)
        else:
            return
        if link.number == opening:
            link.problem(number, code, message)

    async def _served(self, link: ManagerLink, request: Request, opening: int) -> None:
        answer = partial(_answer, link, opening, request.number)
        match request.command:
            case ReadLog() as command:
                key, limit = KernelKey.of(command), min(command.limit, LOG_BYTES_MAX)
                part = await self._runtime.read_log(key.kernel_id, key.attempt, offset=command.offset, limit=limit)
                answer(reply_of(part))
            case MeasureKernel() as command:
                key = KernelKey.of(command)
                answer(reply_of(await self._runtime.measure(key.kernel_id, key.attempt)))
            case OpenStream() as command:
                await self._streams.run(link.address, command, partial(answer, Done()))
            case ListFiles() | ReadFile() | PlaceUpload() as command:
                answer(await answered(self._files, command))
            case _:
                pass


def _answer(link: ManagerLink, opening: int, number: int, reply: Reply) -> None:
    if link.number == opening:
        link.answer(number, reply)
