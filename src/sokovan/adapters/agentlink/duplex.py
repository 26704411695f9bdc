"""Connections as links and streams need them, whoever has accepted them."""

from __future__ import annotations

from typing import Protocol


class Duplex(Protocol):
    """Messages to and from one peer, whole and in order."""

    async def receive(self) -> bytes | None:
        """The next message; None when the peer has hung up."""

    async def send(self, content: bytes) -> None:
        """Send a message. Raises ConnectionError when the peer has hung up."""


class Stream(Protocol):
    """Like a Duplex, with messages of two kinds: bytes, and words about them as text."""

    async def receive(self) -> bytes | str | None:
        """The next message; None when the peer has hung up."""

    async def send(self, content: bytes | str) -> None:
        """Send a message, as fast as the peer takes it.

        Raises ConnectionError when the peer has hung up.
        """
