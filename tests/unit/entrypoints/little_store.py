"""A store in a file with a little in it, and ways to spoil it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.testing.stored_cluster import StoredCluster


def little_store(folder: Path, name: str = "state.db") -> Path:
    """The file of a store with one session that runs."""
    path = folder / name

    async def make() -> None:
        async with StoredCluster.open(f"sqlite:///{path}") as cluster:
            await cluster.agent("a1")
            await cluster.submit("s1")
            await cluster.place("s1", "a1")
            await cluster.start("s1")

    asyncio.run(make())
    return path


def spoil(path: Path, sql: str) -> None:
    """Run statements that no constraint holds back."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA ignore_check_constraints = ON; {sql}")


def overcharge(path: Path) -> None:
    """Violate the first invariant, in one row."""
    spoil(path, "UPDATE agent_slots SET used = used + 7 WHERE slot = 'cpu'")


def take_back(path: Path, revision: str) -> None:
    """Bring the schema back to an earlier revision."""

    async def go_back() -> None:
        database = Database(DatabaseSettings(f"sqlite:///{path}"), clock=SystemClock())
        try:
            await migration.downgrade(database, revision)
        finally:
            await database.close()

    asyncio.run(go_back())


def names_in(folder: Path) -> set[str]:
    """The names of the files in a folder, without SQLite's auxiliary files."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))}
