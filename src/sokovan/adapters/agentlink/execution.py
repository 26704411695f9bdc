"""A command in a kernel of an agent, as the manager sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Self

from sokovan.adapters.agentlink.duplex import Stream
from sokovan.domain.ids import AgentId
from sokovan.ports.agent_gateway import AgentUnreachable
from sokovan.wire.exec_messages import (
    PIECE_BYTES_MAX,
    CommandEnded,
    InputEnded,
    Resized,
    StreamWord,
    word_of,
    word_text,
)
from sokovan.wire.link_codec import MalformedFrame

# Pieces of output that wait for a listener; a command that says more has to wait itself.
PIECES_MAX = 16


class LinkedExecution:
    """Execution port over a stream that the agent has dialled.

    When `opening` is left the stream ends, and the agent then ends the command.
    """

    def __init__(self, agent_id: AgentId, opening: AbstractAsyncContextManager[Stream]) -> None:
        self._agent_id, self._opening = agent_id, opening
        self._stream: Stream | None = None
        self._reading: asyncio.Task[int] | None = None
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(PIECES_MAX)

    async def __aenter__(self) -> Self:
        """Start it. Raises AgentUnreachable, AgentRefused."""
        self._stream = await self._opening.__aenter__()
        self._reading = asyncio.ensure_future(self._read(self._stream))
        return self

    async def __aexit__(self, *_details: object) -> None:
        """End it, if it has not ended."""
        if self._reading is None:
            return
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._opening.__aexit__(None, None, None)

    async def write(self, data: bytes) -> None:
        """Give it input; no bytes is the end of input. One that has ended takes none."""
        if not data:
            await self._say(InputEnded())
            return
        for start in range(0, len(data), PIECE_BYTES_MAX):
            await self._send(data[start : start + PIECE_BYTES_MAX])

    async def resize(self, *, rows: int, columns: int) -> None:
        """Tell its terminal the size of ours."""
        await self._say(Resized(rows, columns))

    async def output(self) -> AsyncIterator[bytes]:
        """What it says, until it ends."""
        while (piece := await self._pieces.get()) is not None:
            self._room.release()
            yield piece
        self._pieces.put_nowait(None)  # for who asks again

    async def wait(self) -> int:
        """Its exit code. Raises AgentUnreachable if the stream broke before that."""
        if self._reading is None:
            raise AgentUnreachable(agent_id=self._agent_id, problem="the command was not started")
        return await asyncio.shield(self._reading)

    async def _say(self, word: StreamWord) -> None:
        await self._send(word_text(word))

    async def _send(self, content: bytes | str) -> None:
        if self._stream is not None:
            with suppress(ConnectionError):  # it has ended, or will be found out by who reads
                await self._stream.send(content)

    async def _read(self, stream: Stream) -> int:
        try:
            while True:
                content = await self._received(stream)
                if isinstance(content, bytes):
                    await self._room.acquire()
                    self._pieces.put_nowait(content)
                elif isinstance(word := word_of(content), CommandEnded):
                    return word.exit_code
        except (ConnectionError, MalformedFrame) as problem:
            raise AgentUnreachable(agent_id=self._agent_id, problem=str(problem)) from None
        finally:
            self._pieces.put_nowait(None)

    @staticmethod
    async def _received(stream: Stream) -> bytes | str:
        content = await stream.receive()
        if content is None:
            raise ConnectionError("the stream of the command broke off")
        return content
