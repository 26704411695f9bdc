"""One connection to PostgreSQL for LISTEN and NOTIFY, opened again when lost.

Messages are lost while it is not open. Listeners are called when it opens, and then
assume that something has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # has no types

from sokovan.ports.environment import Clock
from sokovan.ports.events import BusUnavailable

DEADLINE_S = 5.0
RETRY_S = 0.5
# A connection without messages for this long is checked.
PING_AFTER_S = 5.0
_NOTIFY = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"
_FAILURES = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class NotificationLink:
    """Sends and receives the notifications of a database.

    `url` is that of the database; its connections must not be shared by a pooler.
    """

    def __init__(self, url: str, clock: Clock, *, log: Callable[[str], None] = lambda _line: None) -> None:
        self._url, self._clock, self._log = url, clock, log
        self._received: dict[str, Callable[[str], None]] = {}
        self._opened: list[Callable[[], None]] = []
        self._connection: Any = None
        self._pid = 0
        self._lock = asyncio.Lock()
        self._lost = asyncio.Event()

    def listen(self, channel: str, received: Callable[[str], None], opened: Callable[[], None]) -> None:
        """Call `received` with each message of other processes.

        `opened` is called whenever the connection opens: messages may have been lost before.
        Call this before `run`.
        """
        self._received[channel] = received
        self._opened.append(opened)

    async def notify(self, channel: str, payloads: Sequence[str]) -> None:
        """Send messages, in one transaction. Raises BusUnavailable."""
        connection = self._connection
        if connection is None:
            raise BusUnavailable("the connection for notifications is not open")
        try:
            async with self._lock, asyncio.timeout(DEADLINE_S):
                await connection.execute(_NOTIFY, channel, list(payloads))
        except _FAILURES as error:
            self._lost.set()
            raise BusUnavailable(f"a notification could not be sent: {error}") from error

    async def run(self) -> None:
        """Keep the connection open until cancelled."""
        failing = False
        while True:
            try:
                await self._serve()
            except _FAILURES as error:
                if not failing:
                    self._log(f"notifications of the database: {str(error) or type(error).__name__}; it is tried again")
                failing = True
            else:
                failing = False
            await self._clock.sleep(RETRY_S)

    async def _serve(self) -> None:
        """One connection, until it is lost."""
        # A standby, of an address with several servers, has no notifications.
        connection = await asyncpg.connect(
            self._url, timeout=DEADLINE_S, command_timeout=DEADLINE_S, target_session_attrs="primary"
        )
        try:
            self._lost.clear()
            connection.add_termination_listener(lambda _connection: self._lost.set())
            self._pid = connection.get_server_pid()
            for channel in self._received:
                await connection.add_listener(channel, self._dispatch)
            self._connection = connection
            for opened in self._opened:
                opened()
            while not await self._is_lost(connection):
                pass
        finally:
            self._connection = None
            connection.terminate()

    async def _is_lost(self, connection: Any) -> bool:
        """Wait a while; whether the connection is lost then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PING_AFTER_S):
                await self._lost.wait()
        if not self._lost.is_set():
            async with self._lock, asyncio.timeout(DEADLINE_S):
                await connection.execute("SELECT 1")
        return self._lost.is_set()

    def _dispatch(self, _connection: Any, pid: int, channel: str, payload: str) -> None:
        if pid != self._pid:  # its own messages are not news
            self._received[channel](payload)
