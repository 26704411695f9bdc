"""The manager's end of a command in a kernel."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Self

from sokovan.adapters.agentlink.duplex import Stream
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentUnreachable
from sokovan.wire.exec_messages import (
    CHUNK_BYTES_MAX,
    CommandEnded,
    ExecMessage,
    InputEnded,
    Resized,
    decode_message,
    encode_message,
)
from sokovan.wire.frames import OpenStream
from sokovan.wire.link_codec import MalformedFrame

# Unread chunks of output; a command that writes more is blocked.
CHUNKS_MAX = 16


class LinkedExecution:
    """KernelExecution over a stream that the agent has opened.

    Leaving `opening` closes the stream, and the agent then ends the command.
    """

    def __init__(self, agent_id: AgentId, opening: AbstractAsyncContextManager[Stream]) -> None:
        self._agent_id, self._opening = agent_id, opening
        self._stream: Stream | None = None
        self._reading: asyncio.Task[int] | None = None
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(CHUNKS_MAX)

    async def __aenter__(self) -> Self:
        """Start it. Raises AgentUnreachable, AgentRefused."""
        self._stream = await self._opening.__aenter__()
        self._reading = asyncio.ensure_future(self._read(self._stream))
        return self

    async def __aexit__(self, *_details: object) -> None:
        """Stop it, unless it has ended."""
        if self._reading is None:
            return
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._opening.__aexit__(None, None, None)

    async def write(self, data: bytes) -> None:
        """Send input; empty bytes end the input. Ignored after the end."""
        if not data:
            await self._send_message(InputEnded())
            return
        for start in range(0, len(data), CHUNK_BYTES_MAX):
            await self._send(data[start : start + CHUNK_BYTES_MAX])

    async def resize(self, *, rows: int, columns: int) -> None:
        """Set the size of its terminal."""
        await self._send_message(Resized(rows, columns))

    async def output(self) -> AsyncIterator[bytes]:
        """Its output, until it ends."""
        while (chunk := await self._chunks.get()) is not None:
            self._room.release()
            yield chunk
        self._chunks.put_nowait(None)  # for further readers

    async def wait(self) -> int:
        """Its exit code. Raises AgentUnreachable if the stream broke before."""
        if self._reading is None:
            raise AgentUnreachable(agent_id=self._agent_id, problem="the command was not started")
        return await asyncio.shield(self._reading)

    async def _send_message(self, message: ExecMessage) -> None:
        await self._send(encode_message(message))

    async def _send(self, content: bytes | str) -> None:
        if self._stream is not None:
            with suppress(ConnectionError):  # the reader detects a broken stream
                await self._stream.send(content)

    async def _read(self, stream: Stream) -> int:
        try:
            while True:
                content = await self._received(stream)
                if isinstance(content, bytes):
                    await self._room.acquire()
                    self._chunks.put_nowait(content)
                elif isinstance(message := decode_message(content), CommandEnded):
                    return message.exit_code
        except (ConnectionError, MalformedFrame) as problem:
            raise AgentUnreachable(agent_id=self._agent_id, problem=str(problem)) from None
        finally:
            self._chunks.put_nowait(None)

    @staticmethod
    async def _received(stream: Stream) -> bytes | str:
        content = await stream.receive()
        if content is None:
            raise ConnectionError("the stream of the command was interrupted")
        return content


class LinkedStreams(ABC):
    """Commands in kernels, and connections to their ports, over streams of agents."""

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> LinkedExecution:
        """See the port."""
        request = OpenStream(
            stream_id="", kernel_id=kernel_id, attempt=attempt, command=tuple(command), terminal=terminal
        )
        return LinkedExecution(agent_id, self._stream(agent_id, request))

    def connect(self, agent_id: AgentId, kernel_id: KernelId, attempt: int, port: int) -> LinkedExecution:
        """See the port."""
        request = OpenStream(stream_id="", kernel_id=kernel_id, attempt=attempt, port=port)
        return LinkedExecution(agent_id, self._stream(agent_id, request))

    @abstractmethod
    def _stream(self, agent_id: AgentId, command: OpenStream) -> AbstractAsyncContextManager[Stream]:
        """A stream that the agent opens on request."""
