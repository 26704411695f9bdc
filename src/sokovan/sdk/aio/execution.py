"""A command inside a running kernel, for the async client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from sokovan.sdk.core import exec_frames, session_calls
from sokovan.sdk.core.exec_frames import Finished, Terminal
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.websockets import connecting, lost, socket_options
from sokovan.wire.api.execution import frames_of


class AsyncExecution:
    """The command: iterate over its output, send it input, then ask for its exit code."""

    def __init__(self, endpoint: ServerEndpoint, socket: ClientConnection) -> None:
        self._endpoint, self._socket = endpoint, socket
        self._exit_code: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The output, until the command ends."""
        while self._exit_code is None:
            try:
                told = exec_frames.read(await self._socket.recv())
            except ConnectionClosed as error:
                raise lost(self._endpoint, error) from error
            if isinstance(told, Finished):
                self._exit_code = told.exit_code
            elif told:
                yield told

    async def exit_code(self) -> int:
        """How the command ended; what output is left is read over."""
        async for _ in self:
            continue
        return -1 if self._exit_code is None else self._exit_code

    async def write(self, content: bytes) -> None:
        """Send input."""
        for frame in frames_of(content):
            await self.send_frame(frame)

    async def end_input(self) -> None:
        """Tell the command that no more input comes."""
        await self.send_frame(exec_frames.END_OF_INPUT)

    async def resize(self, terminal: Terminal) -> None:
        """Tell the command that the terminal has another size."""
        await self.send_frame(exec_frames.resized(terminal))

    async def close(self) -> None:
        """Let go; a command that still runs is ended by the server."""
        await self._socket.close()

    async def send_frame(self, frame: bytes | str) -> None:
        """Send one frame as it is."""
        try:
            await self._socket.send(frame)
        except ConnectionClosed as error:
            if self._exit_code is None:
                raise lost(self._endpoint, error) from error


async def execute(
    endpoint: ServerEndpoint, ref: str, command: Sequence[str], *, kernel: int = 0, terminal: Terminal | None = None
) -> AsyncExecution:
    """Start a command inside a kernel."""
    address = endpoint.socket_url + session_calls.execution(ref, kernel)
    with connecting(endpoint):
        socket = await connect(address, **socket_options(endpoint))
    started = AsyncExecution(endpoint, socket)
    await started.send_frame(exec_frames.opening(command, terminal))
    return started
