"""Begins transactions with a commit id, by which a repeated one is known."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql.compiled_statements import run
from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.schema.columns import server_time
from sokovan.adapters.sql.schema.tables import COMMITS
from sokovan.adapters.sql.transaction import Transaction


async def begin(database: Database, connection: AsyncConnection, commit_id: str) -> Transaction | None:
    """Insert the commit id and read time and stamp.

    None if an earlier attempt has committed.
    """
    bound = {"the_id": commit_id, **({} if database.is_postgresql else {"the_now_ms": database.clock.now_ms()})}
    rows = (await run(connection, _insert_commit_id(database.is_postgresql), bound)).rows
    if not rows:
        return None
    row = rows[0]
    stamp = row.stamp if database.is_postgresql else row.sequence
    return transaction_of(database, connection, now_ms=row.at_ms, stamp=stamp, number=row.sequence)


@cache
def _insert_commit_id(is_postgresql: bool) -> Any:  # noqa: FBT001  # a key of the cache
    insert = (postgresql.insert if is_postgresql else sqlite.insert)(COMMITS)
    now = server_time() if is_postgresql else sa.bindparam("the_now_ms")
    # The stamp: PostgreSQL's transaction id; on SQLite, which has one writer at a time, the sequence number.
    stamp = sa.cast(sa.cast(sa.func.pg_current_xact_id(), sa.Text), sa.BigInteger).label("stamp")
    return (
        insert.values(commit_id=sa.bindparam("the_id"), at_ms=now)
        .on_conflict_do_nothing()
        .returning(COMMITS.c.at_ms, COMMITS.c.sequence, *([stamp] if is_postgresql else []))
    )


def transaction_of(
    database: Database, connection: AsyncConnection, *, now_ms: int, stamp: int = 0, number: int = 0
) -> Transaction:
    """The transaction of a connection, for repositories."""
    return Transaction(connection, postgresql=database.is_postgresql, now_ms=now_ms, stamp=stamp, number=number)
