"""Ends transactions of managers that hang, when others wait for their locks.

A manager that was stopped in the middle of a transaction keeps its locks. The timeouts of
PostgreSQL do not always end it: between the preparation of a statement and its execution the
server waits for its client and counts the transaction neither as idle nor as a statement
that may be cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql.database import MANAGER_APPLICATION, Database, is_connection_loss
from sokovan.domain.errors import StoreUnavailable

# A transaction is ended when so many looks in a row have found it silent. Looks are counted, not seconds: after a pause
# of the whole machine every client seems to have been silent, and gets the time between two looks to go on.
LOOKS = 3
# Only of managers, and of those whose connections this user may see and end.
_SILENT = sa.text(
    """
    SELECT DISTINCT silent.pid, silent.state_change
    FROM pg_stat_activity AS waiting
    CROSS JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) AS blocker(pid)
    JOIN pg_stat_activity AS silent ON silent.pid = blocker.pid
    WHERE waiting.wait_event_type = 'Lock'
        AND waiting.datname = current_database()
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
Silence: TypeAlias = tuple[int, datetime]


@dataclass(frozen=True, slots=True)
class SilentClients:
    """Looks for silent transactions; what was found before is given to the next look.

    The database has a connection for this alone: others may all wait for the locks.
    """

    database: Database

    async def look(self, before: Mapping[Silence, int]) -> tuple[dict[Silence, int], int]:
        """The silent transactions with the number of looks that found them, and how many were ended.

        Raises StoreUnavailable.
        """
        try:
            async with self.database.reading() as connection:
                return await _look(connection, before)
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            if not is_connection_loss(error):
                raise
            raise StoreUnavailable("the database does not answer") from error

    async def close(self) -> None:
        """Close the connection."""
        await self.database.close()


async def _look(connection: AsyncConnection, before: Mapping[Silence, int]) -> tuple[dict[Silence, int], int]:
    rows = (await connection.execute(_SILENT, {"application": MANAGER_APPLICATION})).all()
    found = {(row.pid, row.state_change): before.get((row.pid, row.state_change), 0) + 1 for row in rows}
    ended = 0
    await connection.execute(_FRESH)
    for (pid, since), looks in found.items():
        if looks >= LOOKS:
            ended += int((await connection.execute(_END, {"pid": pid, "since": since})).scalar_one())
    return found, ended
