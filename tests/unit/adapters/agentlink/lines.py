"""A connection in memory, and an agent that says what a test wants it to say."""

from __future__ import annotations

import asyncio

from sokovan.wire.frames import Frame, Heartbeat, Hello, HelloRefused, Welcome
from sokovan.wire.link_codec import decode, encode

HELLO = Hello(agent_id="a1", software="1")
BEAT = Heartbeat(incarnation=1, sequence=1)


class Line:
    """A Duplex; the test is at its far end."""

    def __init__(self) -> None:
        self._to_manager: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._to_agent: asyncio.Queue[bytes] = asyncio.Queue()
        self.broken = False
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.answering = asyncio.Event()
        self.answering.set()

    async def receive(self) -> bytes | None:
        return await self._to_manager.get()

    async def send(self, content: bytes) -> None:
        await self.flowing.wait()
        if self.broken:
            raise ConnectionError("the line is broken")
        self._to_agent.put_nowait(content)

    async def ping(self) -> None:
        await self.answering.wait()
        if self.broken:
            raise ConnectionError("the line is broken")

    def says(self, frame: Frame) -> None:
        """The agent sends a frame."""
        self._to_manager.put_nowait(encode(frame))

    def says_bytes(self, content: bytes) -> None:
        self._to_manager.put_nowait(content)

    def hangs_up(self) -> None:
        self._to_manager.put_nowait(None)

    async def hears(self) -> Frame:
        """The next frame from the manager."""
        async with asyncio.timeout(60):
            return decode(await self._to_agent.get())

    @property
    def quiet(self) -> bool:
        """Whether nothing is left to receive."""
        return self._to_agent.empty()


class Door:
    """Admits everybody, with an incarnation of the test's choice."""

    def __init__(self) -> None:
        self.incarnation = 1
        self.heartbeat_s = 5.0
        self.verdict: HelloRefused | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.tokens: list[str] = []

    async def admit(self, _hello: Hello, token: str) -> Welcome | HelloRefused:
        self.tokens.append(token)
        await self.open.wait()
        return self.verdict or Welcome(incarnation=self.incarnation, heartbeat_s=self.heartbeat_s)


class Pipe:
    """A Stream; the test is at its far end."""

    def __init__(self) -> None:
        self.to_manager: asyncio.Queue[bytes | str | None] = asyncio.Queue()
        self.to_agent: list[bytes | str] = []
        self.broken = False

    async def receive(self) -> bytes | str | None:
        return await self.to_manager.get()

    async def send(self, content: bytes | str) -> None:
        if self.broken:
            raise ConnectionError("the stream is broken")
        self.to_agent.append(content)
