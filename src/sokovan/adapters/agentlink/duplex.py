"""A connection as a link needs it, whoever has accepted it."""

from __future__ import annotations

from typing import Protocol


class Duplex(Protocol):
    """Messages to and from one peer, whole and in order."""

    async def receive(self) -> bytes | None:
        """The next message; None when the peer has hung up."""

    async def send(self, content: bytes) -> None:
        """Send a message. Raises ConnectionError when the peer has hung up."""
