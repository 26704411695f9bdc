"""A command that runs in a kernel, for the async client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from sokovan.sdk.core import exec_frames, session_calls
from sokovan.sdk.core.exec_frames import Finished, Terminal
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.websockets import connecting, connection_lost, socket_options
from sokovan.wire.api.execution import frames_of


class AsyncExecution:
    """One command: iterate over its output, write its input, then read its exit code.

    Input may be written from another task than the one that reads output.
    """

    def __init__(self, endpoint: ServerEndpoint, socket: ClientConnection, resources: AsyncExitStack) -> None:
        self._endpoint, self._socket, self._resources = endpoint, socket, resources
        self._exit_code: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the output until the command ends."""
        while self._exit_code is None:
            try:
                frame = exec_frames.read(await self._socket.recv())
            except ConnectionClosed as error:
                raise connection_lost(self._endpoint, error) from error
            if isinstance(frame, Finished):
                self._exit_code = frame.exit_code
            elif frame:
                yield frame

    # sync: @property
    async def exit_code(self) -> int:
        """Exit code of the command; discards the rest of its output."""
        async for _ in self:
            continue
        return -1 if self._exit_code is None else self._exit_code

    async def write(self, content: bytes) -> None:
        """Write to its standard input."""
        for frame in frames_of(content):
            await self.send_frame(frame)

    async def end_input(self) -> None:
        """Close its standard input."""
        await self.send_frame(exec_frames.END_OF_INPUT)

    async def resize(self, terminal: Terminal) -> None:
        """Resize its terminal."""
        await self.send_frame(exec_frames.resized(terminal))

    async def close(self) -> None:
        """Close the connection; the server ends a command that still runs."""
        await self._resources.aclose()

    async def send_frame(self, frame: bytes | str) -> None:
        """Send one frame unchanged."""
        try:
            await self._socket.send(frame)
        except ConnectionClosed as error:
            if self._exit_code is None:
                raise connection_lost(self._endpoint, error) from error


async def connect_port(endpoint: ServerEndpoint, ref: str, port: str, *, kernel: int = 0) -> AsyncExecution:
    """Connect to a port of a kernel."""
    return await _opened(endpoint, session_calls.port(ref, kernel, port))


async def execute(
    endpoint: ServerEndpoint, ref: str, command: Sequence[str], *, kernel: int = 0, terminal: Terminal | None = None
) -> AsyncExecution:
    """Start a command in a kernel."""
    execution = await _opened(endpoint, session_calls.execution(ref, kernel))
    await execution.send_frame(exec_frames.opening(command, terminal))
    return execution


async def _opened(endpoint: ServerEndpoint, path: str) -> AsyncExecution:
    resources = AsyncExitStack()
    with connecting(endpoint):
        socket = await resources.enter_async_context(connect(endpoint.socket_url + path, **socket_options(endpoint)))
    return AsyncExecution(endpoint, socket, resources)
