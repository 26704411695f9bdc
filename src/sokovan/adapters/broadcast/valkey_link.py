"""Messages between processes by channels of Valkey or Redis.

Nothing is stored there: a server that was killed or flushed is as good as before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from sokovan.adapters.broadcast.valkey_connection import DEADLINE_S, RETRY_S_MIN, ValkeyConnection
from sokovan.ports.environment import Clock
from sokovan.ports.events import BusUnavailable

# A connection without messages for this long is checked.
PING_AFTER_S = 5.0


class ValkeyLink:
    """Sends and receives messages on channels that begin with `prefix`.

    Channels are those of the whole server, whatever database the URL names.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        prefix: str = "sokovan",
        log: Callable[[str], None] = lambda _line: None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._clock, self._prefix, self._log = clock, prefix, log
        self._sender = ValkeyConnection(url, deadline_s=deadline_s)
        self._receiver = ValkeyConnection(url, deadline_s=deadline_s)
        # The sender of each message, because its own are not news.
        self._own = uuid.uuid4().hex
        self._received: dict[bytes, Callable[[str], None]] = {}
        self._opened: list[Callable[[], None]] = []

    def listen(self, channel: str, received: Callable[[str], None], opened: Callable[[], None]) -> None:
        """Call `received` with each message of others, `opened` when it opens."""
        self._received[self._channel(channel).encode()] = received
        self._opened.append(opened)

    async def notify(self, channel: str, payloads: Sequence[str]) -> None:
        """Send messages. Raises BusUnavailable."""
        name = self._channel(channel)
        await self._sender.call_all([("PUBLISH", name, f"{self._own} {payload}") for payload in payloads])

    async def run(self) -> None:
        """Keep the connection open until cancelled."""
        failing = False
        try:
            while True:
                try:
                    await self._receiver.call_all([("SUBSCRIBE", channel) for channel in self._received])
                    failing = False
                    for opened in self._opened:
                        opened()
                    await self._dispatch()
                except BusUnavailable as error:
                    if not failing:
                        self._log(f"messages of Valkey: {error.message}; it is tried again")
                    failing = True
                await self._clock.sleep(max(self._receiver.retry_in_s, RETRY_S_MIN))
        finally:
            await self._receiver.close()
            await self._sender.close()

    async def _dispatch(self) -> None:
        """Pass on messages. Raises BusUnavailable."""
        while True:
            # Anything else than the reply to PING is a message, and the reply is read after it.
            message = await self._receiver.pushed(wait_s=PING_AFTER_S) or await self._receiver.call("PING")
            kind, channel, *content = message
            if kind != b"message" or channel not in self._received:
                continue
            sender, _, payload = content[0].decode(errors="replace").partition(" ")
            if sender != self._own:
                self._received[channel](payload)

    def _channel(self, name: str) -> str:
        return f"{self._prefix}:{name}"
