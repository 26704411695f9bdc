"""A connection to Valkey with deadlines and without automatic retries.

Every exchange ends within its deadline, with replies or with BusUnavailable. After
a failure the next attempts fail immediately for a short backoff, so that an
unavailable server causes neither delays nor a storm of connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

from valkey.asyncio.connection import AbstractConnection, Connection, parse_url
from valkey.exceptions import ResponseError, ValkeyError

from sokovan.ports.events import BusUnavailable

DEADLINE_S = 2.0
RETRY_S_MIN = 0.05
RETRY_S_MAX = 1.0

Argument: TypeAlias = str | bytes | int


class ValkeyConnection:
    """Sends requests one at a time over one connection."""

    def __init__(self, url: str, *, deadline_s: float = DEADLINE_S) -> None:
        # The library's timeouts are disabled: the deadline covers connecting, sending and all replies.
        self._options: dict[str, Any] = {"socket_timeout": None, **parse_url(url)}
        self._kind: type[AbstractConnection] = self._options.pop("connection_class", Connection)
        self._deadline_s = deadline_s
        self._connection: AbstractConnection | None = None
        self._lock = asyncio.Lock()
        self._retry_s = 0.0
        self._retry_at = 0.0
        self.closed = False

    @property
    def retry_in_s(self) -> float:
        """Remaining backoff, during which calls fail immediately."""
        return max(0.0, self._retry_at - asyncio.get_running_loop().time())

    async def call(self, *command: Argument, wait_s: float = 0.0) -> Any:
        """The reply to one command, which may block up to `wait_s`.

        Raises BusUnavailable, like all methods.
        """
        [reply] = await self.call_all([command], wait_s=wait_s)
        return reply

    async def call_all(self, commands: Sequence[Sequence[Argument]], *, wait_s: float = 0.0) -> list[Any]:
        """The replies to pipelined commands."""
        replies = await self._exchange(commands, wait_s)
        refusal = next((reply for reply in replies if isinstance(reply, ResponseError)), None)
        if refusal is not None:
            self._refuse(refusal)
        return replies

    async def pushed(self, *, wait_s: float) -> Any:
        """The next message of a subscribed connection, None after `wait_s`."""
        if self._connection is None:
            raise BusUnavailable("the connection was lost")
        try:
            return await self._connection.read_response(timeout=wait_s)
        except (ValkeyError, OSError) as error:
            await self._drop(self._connection)
            self._fail(error)

    async def close(self) -> None:
        """Close the connection; later calls raise BusUnavailable."""
        self.closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(ValkeyError, OSError, TimeoutError):
                async with asyncio.timeout(self._deadline_s):
                    await connection.disconnect()

    async def _exchange(self, commands: Sequence[Sequence[Argument]], wait_s: float = 0.0) -> list[Any]:
        try:
            async with asyncio.timeout(self._deadline_s + wait_s), self._lock:
                return await self._send_and_read(commands)
        except (ValkeyError, OSError, TimeoutError) as error:
            self._fail(error)

    async def _send_and_read(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        if self.closed or self.retry_in_s > 0:
            raise BusUnavailable("the connection is closed" if self.closed else "the bus is unavailable; retrying soon")
        connection = self._connection = self._connection or self._kind(**self._options)
        try:
            await connection.send_packed_command(connection.pack_commands(commands))
            replies = [await _reply(connection) for _ in commands]
        except BaseException:
            # Cancelled or failed: a late reply would be taken for that of another command.
            await self._drop(connection)
            raise
        if self._connection is not connection:  # closed meanwhile
            await self._drop(connection)
        self._retry_s = 0.0
        return replies

    async def _drop(self, connection: AbstractConnection) -> None:
        self._connection = None
        with suppress(ValkeyError, OSError):
            await connection.disconnect(nowait=True)

    def _fail(self, error: Exception) -> NoReturn:
        self._retry_s = min(max(2 * self._retry_s, RETRY_S_MIN), RETRY_S_MAX)
        self._retry_at = asyncio.get_running_loop().time() + self._retry_s
        raise BusUnavailable(f"the bus does not respond: {type(error).__name__}") from error

    @staticmethod
    def _refuse(error: ResponseError) -> NoReturn:
        # Only the error code: the rest may quote keys and values.
        kind = str(error).partition(" ")[0] or type(error).__name__
        raise BusUnavailable(f"the bus refused a command: {kind}") from error


async def _reply(connection: AbstractConnection) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error
