"""Copies a store from SQLite to PostgreSQL, and verifies the copy.

The copy is one transaction: it is complete and equal to the source, or nothing is written.
The source is opened read-only.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.schema.revision import newest_revision
from sokovan.adapters.sql.schema.tables import METADATA
from sokovan.domain.errors import Conflict, SokovanError
from sokovan.entrypoints.database import opened, shown
from sokovan.entrypoints.embedded.data_folder import LOCK, STORE, DataFolder, DataFolderUnusable

ROWS_AT_ONCE = 1000
_MODULUS = 1 << 256


class TransferFailed(SokovanError):
    """The copy differs from its source; nothing was written."""

    code = "transfer-failed"
    hint = "nothing was written; try again, and report it if it repeats"


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table that was copied; rows and checksum are equal on both sides."""

    name: str
    rows: int
    checksum: str


class TableDigest:
    """Counts rows and adds up their digests, so that their order does not matter."""

    def __init__(self) -> None:
        self.rows, self._total = 0, 0

    def add(self, rows: Iterable[Sequence[object]]) -> None:
        """Count in some rows."""
        for row in rows:
            content = repr([_plain(value) for value in row]).encode()
            self._total = (self._total + int.from_bytes(hashlib.sha256(content).digest())) % _MODULUS
            self.rows += 1

    @property
    def checksum(self) -> str:
        """The sum of all digests."""
        return f"{self._total:064x}"


def transfer(source: Path, target: str, *, report: Callable[[str], None]) -> list[CopiedTable]:
    """Copy a store of SQLite into an empty, current PostgreSQL database.

    The server of the source must be stopped; its lock is held meanwhile. Raises AlreadyUp,
    Conflict, SchemaMismatch, StoreMissing, StoreUnavailable, TransferFailed.
    """
    file = source / STORE if source.is_dir() else source
    if not file.exists():
        raise DataFolderUnusable(f"there is no file {file}", hint="name the data folder of sokovan up, or its state.db")
    address = f"{file.absolute().as_uri()}?mode=ro"
    if not (file.parent / LOCK).exists():
        return asyncio.run(_transfer(address, target, report))
    with DataFolder(file.parent).locked():
        return asyncio.run(_transfer(address, target, report))


async def _transfer(address: str, target: str, report: Callable[[str], None]) -> list[CopiedTable]:
    with closing(sqlite3.connect(address, uri=True)) as source:
        source.execute("BEGIN")  # one view of all tables
        _require_newest(source)
        async with opened(target, read_only=False) as database:
            await migration.check(database)
            async with database.writing() as connection:
                await _require_empty(connection, shown(database))
                await connection.execute(sa.text("SET CONSTRAINTS ALL DEFERRED"))
                copied = [await _copied(source, connection, table) for table in METADATA.sorted_tables]
                for table in copied:
                    report(f"{table.name}: {table.rows} rows, sha256 sum {table.checksum[:16]}, verified")
                await connection.commit()
    return copied


async def _copied(source: sqlite3.Connection, connection: AsyncConnection, table: sa.Table) -> CopiedTable:
    """Copy one table and read it back. Raises TransferFailed."""
    read, written = TableDigest(), TableDigest()
    for rows in _batches(source, table):
        read.add(rows)
        names = [column.name for column in table.columns]
        await connection.execute(table.insert(), [dict(zip(names, row, strict=True)) for row in rows])
    found = await connection.stream(sa.select(*table.columns))
    async for batch in found.partitions(ROWS_AT_ONCE):
        written.add([tuple(row) for row in batch])
    if (read.rows, read.checksum) != (written.rows, written.checksum):
        raise TransferFailed(f"{table.name}: {read.rows} rows were read, {written.rows} equal ones are not there")
    await _continue_numbers(connection, table)
    return CopiedTable(table.name, read.rows, read.checksum)


def _batches(source: sqlite3.Connection, table: sa.Table) -> Iterator[list[tuple[object, ...]]]:
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    is_switch = [isinstance(column.type, sa.Boolean) for column in table.columns]
    cursor = source.execute(f'SELECT {columns} FROM "{table.name}"')  # noqa: S608  # names of our own schema
    while rows := cursor.fetchmany(ROWS_AT_ONCE):
        yield [
            tuple(bool(one) if flag and one is not None else one for one, flag in zip(row, is_switch, strict=True))
            for row in rows
        ]


async def _continue_numbers(connection: AsyncConnection, table: sa.Table) -> None:
    """Let generated row numbers continue after the copied ones."""
    numbered = table.autoincrement_column
    if numbered is None:
        return
    highest = (await connection.execute(sa.select(sa.func.max(numbered)))).scalar_one()
    name = (await connection.execute(sa.select(sa.func.pg_get_serial_sequence(table.name, numbered.name)))).scalar_one()
    if highest is not None and name is not None:
        await connection.execute(sa.select(sa.func.setval(name, highest)))


async def _require_empty(connection: AsyncConnection, target: str) -> None:
    for table in METADATA.sorted_tables:
        if (await connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1))).first() is not None:
            raise Conflict(
                f"{target} is not empty: table {table.name} has rows",
                hint="copy into a new database, before a manager has used it",
            )


def _require_newest(source: sqlite3.Connection) -> None:
    try:
        found = [row[0] for row in source.execute("SELECT version_num FROM alembic_version")]
    except sqlite3.DatabaseError as error:
        raise DataFolderUnusable(
            f"the store cannot be read: {error}", hint="name the state.db of sokovan up"
        ) from error
    if found != [newest_revision()]:
        raise migration.SchemaMismatch(
            f"the store to copy is at revision {', '.join(found) or 'none'}, this version needs {newest_revision()}",
            hint="upgrade it first: sokovan db upgrade --store sqlite:///FILE",
        )


def _plain(value: object) -> object:
    """A value in the form that both databases give."""
    return int(value) if isinstance(value, bool) else value
