"""The connection that carries messages between processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

# The least of all links: PostgreSQL refuses 8000 bytes and more.
PAYLOAD_BYTES_MAX = 7_900


class BroadcastLink(Protocol):
    """Sends messages to all other processes, and receives theirs.

    Messages are lost while it is not open.
    """

    def listen(self, channel: str, received: Callable[[str], None], opened: Callable[[], None]) -> None:
        """Call `received` with each message of other processes.

        `opened` is called whenever the connection opens: messages may have been lost before.
        Call this before `run`.
        """

    async def notify(self, channel: str, payloads: Sequence[str]) -> None:
        """Send messages. Raises BusUnavailable."""

    async def run(self) -> None:
        """Keep the connection open until cancelled."""
