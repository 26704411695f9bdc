"""Message connections as links and streams need them."""

from __future__ import annotations

from typing import Protocol


class Duplex(Protocol):
    """An ordered message connection to one peer."""

    async def receive(self) -> bytes | None:
        """The next message; None when the peer has disconnected."""

    async def send(self, content: bytes) -> None:
        """Send a message. Raises ConnectionError when the peer has disconnected."""

    async def ping(self) -> None:
        """Return once the peer has answered. Raises ConnectionError."""


class Stream(Protocol):
    """Like a Duplex, with binary data and control messages as text."""

    async def receive(self) -> bytes | str | None:
        """The next message; None when the peer has disconnected."""

    async def send(self, content: bytes | str) -> None:
        """Send a message, waiting while the peer reads slowly.

        Raises ConnectionError when the peer has disconnected.
        """
