"""The copy of a store from SQLite to PostgreSQL: complete and verified, or nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.migration import SchemaMismatch
from sokovan.adapters.sql.schema.tables import SESSIONS
from sokovan.domain.errors import Conflict
from sokovan.entrypoints.audit import audited
from sokovan.entrypoints.cluster.transfer import TableDigest, transfer
from sokovan.entrypoints.database import upgraded
from sokovan.entrypoints.embedded.data_folder import AlreadyUp, DataFolder, DataFolderUnusable
from tests.unit.entrypoints.little_store import little_store, spoil, take_back


def silent(_line: str) -> None:
    """Where reports are of no interest."""


def migrated(url: str) -> str:
    """The database with the newest schema."""
    upgraded(url, report=silent)
    return url


async def sessions_in(url: str) -> list[tuple[str, str]]:
    """The sessions of a store."""
    database = Database(DatabaseSettings(url), clock=SystemClock())
    try:
        async with database.reading() as connection:
            rows = await connection.execute(sa.select(SESSIONS.c.session_id, SESSIONS.c.status))
            return [(row.session_id, row.status) for row in rows]
    finally:
        await database.close()


@pytest.mark.slow
def test_a_store_is_copied_whole_and_holds_its_invariants(tmp_path: Path, postgres_url: str) -> None:
    file = little_store(tmp_path)
    before = file.read_bytes()
    lines: list[str] = []
    copied = {one.name: one.rows for one in transfer(tmp_path, migrated(postgres_url), report=lines.append)}
    assert (copied["sessions"], copied["kernels"], copied["agents"]) == (1, 1, 1)
    assert all(line.endswith("verified") for line in lines)
    assert asyncio.run(sessions_in(postgres_url)) == asyncio.run(sessions_in(f"sqlite:///{file}"))
    assert audited(postgres_url).holds
    assert file.read_bytes() == before


@pytest.mark.slow
def test_row_numbers_go_on_after_the_copied_ones(tmp_path: Path, postgres_url: str) -> None:
    file = little_store(tmp_path)
    spoil(file, "DELETE FROM outbox; INSERT INTO outbox (sequence, at_ms, events) VALUES (70, 1, '[]')")
    transfer(file, migrated(postgres_url), report=silent)

    async def next_number() -> int:
        database = Database(DatabaseSettings(postgres_url), clock=SystemClock())
        async with database.writing() as connection:
            added = sa.text("INSERT INTO outbox (at_ms, events) VALUES (2, '[]') RETURNING sequence")
            number = int((await connection.execute(added)).scalar_one())
        await database.close()
        return number

    assert asyncio.run(next_number()) == 71


@pytest.mark.slow
def test_a_copy_is_refused_rather_than_mixed_with_other_rows(tmp_path: Path, postgres_url: str) -> None:
    file = little_store(tmp_path)
    transfer(file, migrated(postgres_url), report=silent)
    with pytest.raises(Conflict, match="is not empty"):
        transfer(file, postgres_url, report=silent)


@pytest.mark.slow
def test_the_source_must_be_current_stopped_and_a_store(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(DataFolderUnusable, match="there is no file"):
        transfer(tmp_path / "none", migrated(postgres_url), report=silent)
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "other" / "state.db").write_text("no database", encoding="utf-8")
    with pytest.raises(DataFolderUnusable, match="cannot be read"):
        transfer(tmp_path / "other", postgres_url, report=silent)
    folder = tmp_path / "up"
    folder.mkdir(mode=0o700)
    file = little_store(folder)
    with DataFolder(folder).locked(), pytest.raises(AlreadyUp):
        transfer(file, postgres_url, report=silent)
    take_back(file, "0002")
    with pytest.raises(SchemaMismatch, match="0002"):
        transfer(file, postgres_url, report=silent)


def test_a_digest_depends_on_every_value_and_not_on_the_order() -> None:
    def digest(*rows: tuple[object, ...]) -> tuple[int, str]:
        made = TableDigest()
        made.add(rows)
        return made.rows, made.checksum

    assert digest((1, "a"), (2, None)) == digest((2, None), (1, "a"))
    assert digest((1, "a")) != digest((1, "b"))
    assert digest((1, "a")) != digest((1, "a"), (1, "a"))
    assert digest((True,)) == digest((1,))
