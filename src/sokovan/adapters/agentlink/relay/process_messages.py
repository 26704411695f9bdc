"""Messages between the processes of one server, over Unix sockets in its folder.

A message is four bytes with its length, then MessagePack. A connection carries one request
and its outcome; a stream of a kernel follows on the same connection.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from sokovan.wire.frames import ListFiles, MeasureKernel, OpenStream, PlaceUpload, ReadFile, ReadLog

# The states of all agents are one message.
MESSAGE_BYTES_MAX = 256 << 20
_LENGTH_BYTES = 4


class StateWanted(Struct, frozen=True, tag="state"):
    """The latest heartbeat of the agent."""


class StatesWanted(Struct, frozen=True, tag="states"):
    """The latest heartbeats of all agents."""


class LinksWanted(Struct, frozen=True, tag="links"):
    """The agents that have a link now; none if they are those of `digest`."""

    digest: str = ""


class JoiningWanted(Struct, frozen=True, tag="joining"):
    """The address that machines join at."""


class LinkUnwanted(Struct, frozen=True, tag="disconnect"):
    """Close the link of the agent."""


class MetricsWanted(Struct, frozen=True, tag="metrics"):
    """The metrics of the process."""


class LinksFound(Struct, frozen=True):
    """The linked agents; None if they are those of the request's digest."""

    digest: str
    agents: tuple[str, ...] | None


Wanted: TypeAlias = (
    ReadLog
    | MeasureKernel
    | ListFiles
    | ReadFile
    | PlaceUpload
    | OpenStream
    | StateWanted
    | StatesWanted
    | LinksWanted
    | JoiningWanted
    | LinkUnwanted
    | MetricsWanted
)


class ProcessRequest(Struct, frozen=True):
    """A request, about one agent or, without a name, about all."""

    agent_id: str
    wanted: Wanted


class RelayOutcome(Struct, frozen=True):
    """The outcome of a request: its content, or how the agent failed."""

    kind: Literal["done", "unreachable", "refused"]
    content: msgspec.Raw = msgspec.Raw(b"\xc0")
    problem: str = ""
    reason: str = ""


class RelayChannel:
    """One connection between two processes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, message: Any) -> None:
        """Send a message, waiting while the peer reads slowly. Raises ConnectionError."""
        content = msgspec.msgpack.encode(message)
        self._writer.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
        await self._writer.drain()

    async def receive_raw(self) -> bytes | None:
        """The next message; None when the peer has disconnected."""
        try:
            size = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
            return await self._reader.readexactly(size) if size <= MESSAGE_BYTES_MAX else None
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()


class RelayStream:
    """The bytes and control messages of a kernel's stream, over a channel."""

    def __init__(self, channel: RelayChannel) -> None:
        self._channel = channel

    async def receive(self) -> bytes | str | None:
        """The next message; None when the peer has disconnected."""
        content = await self._channel.receive_raw()
        found = None if content is None else msgspec.msgpack.decode(content)
        return found if isinstance(found, bytes | str) else None

    async def send(self, content: bytes | str) -> None:
        """Send a message. Raises ConnectionError."""
        await self._channel.send(content)
