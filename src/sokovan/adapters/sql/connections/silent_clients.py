"""Ends transactions of managers that hang, when others wait for their locks.

A manager that was stopped in the middle of a transaction keeps its locks. The timeouts of
PostgreSQL do not always end it: between the preparation of a statement and its execution the
server waits for its client and counts the transaction neither as idle nor as a statement
that may be cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql.connections.address import MANAGER_APPLICATION
from sokovan.adapters.sql.connections.errors import is_connection_loss, is_retryable
from sokovan.domain.errors import StoreUnavailable

# A transaction is ended when so many looks in a row have found it silent. Looks are counted, not seconds: after a pause
# of the whole machine every client seems to have been silent, and gets the time between two looks to go on.
LOOKS = 3
# Only of managers, and of those whose connections this user may see and end.
_SILENT = sa.text(
    """
    SELECT silent.pid, silent.state_change, EXISTS (
        SELECT FROM pg_stat_activity AS waiting
        WHERE waiting.wait_event_type = 'Lock'
            AND waiting.datname = current_database()
            AND silent.pid = ANY(pg_blocking_pids(waiting.pid))
    ) AS blocks
    FROM pg_stat_activity AS silent
    WHERE silent.datname = current_database()
        AND silent.xact_start IS NOT NULL
        AND silent.wait_event_type = 'Client'
        AND silent.application_name = :application
        AND pg_has_role(silent.usesysid, 'USAGE')
    """
)
# The activity is otherwise read once in a transaction.
_FRESH = sa.text("SELECT pg_stat_clear_snapshot()")
_END = sa.text(
    """
    SELECT count(*) FILTER (WHERE pg_terminate_backend(pid))
    FROM pg_stat_activity
    WHERE pid = :pid AND state_change = :since AND wait_event_type = 'Client'
    """
)
# A connection and the moment of its last change of state: the same silence, not a later one.
_Silence: TypeAlias = tuple[int, datetime]


class SilentClients:
    """Looks for silent transactions, and ends those that others wait for.

    `reading` opens a transaction on a connection for this alone: all others may wait for
    the locks.
    """

    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[AsyncConnection]]) -> None:
        self._reading = reading
        # How many looks in a row have found each.
        self._found: dict[_Silence, int] = {}
        # A connection that was ended may be listed for a moment: it is not counted twice.
        self._ended: set[_Silence] = set()

    async def look(self) -> int:
        """Look once; how many transactions were ended. Raises StoreUnavailable."""
        try:
            async with self._reading() as connection:
                return await self._look(connection)
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            if not (is_connection_loss(error) or is_retryable(error)):
                raise
            raise StoreUnavailable("the database does not answer") from error

    async def _look(self, connection: AsyncConnection) -> int:
        rows = (await connection.execute(_SILENT, {"application": MANAGER_APPLICATION})).all()
        self._found = {(row.pid, row.state_change): self._found.get((row.pid, row.state_change), 0) + 1 for row in rows}
        self._ended &= self._found.keys()
        blocking = {(row.pid, row.state_change) for row in rows if row.blocks}
        due = [key for key in blocking - self._ended if self._found[key] >= LOOKS]
        if due:
            await connection.execute(_FRESH)
        before = len(self._ended)
        for pid, since in due:
            if (await connection.execute(_END, {"pid": pid, "since": since})).scalar_one():
                self._ended.add((pid, since))
        return len(self._ended) - before
