"""The invariants on a real PostgreSQL: the same checks as on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.invariants.auditor import INVARIANTS, audit
from sokovan.adapters.sql.store import R, SqlStore, Work
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.cli.local.audit import audit as audit_command
from sokovan.domain.errors import StoreUnavailable
from sokovan.entrypoints.audit import audited
from sokovan.entrypoints.database import StoreMissing, checked, opened, upgraded
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.busy_cluster import make_busy
from tests.unit.adapters.sql.invariants.test_auditor import EVERY_BREAK

CONSTRAINTS = sa.text(
    "SELECT conrelid::regclass::text AS name, conname FROM pg_constraint"
    " WHERE contype IN ('c', 'f') AND connamespace = 'public'::regnamespace"
)


class Spoiled(SqlStore):
    """A store in which some statements have been run, for as long as it is read."""

    def __init__(self, healthy: SqlStore, statements: Sequence[str]) -> None:
        super().__init__(healthy.database, ids=healthy._ids)
        self._statements = statements

    async def read_long(self, work: Work[R]) -> R:
        async with self.database.writing() as connection:
            for statement in self._statements:
                await connection.exec_driver_sql(statement)
            transaction = Transaction(connection, postgresql=True, now_ms=0, stamp=0, number=0)
            return await work(SqlUnitOfWork(transaction))


async def drop_constraints(database: Database) -> None:
    """Let through what the database itself would refuse."""
    async with database.writing() as connection:
        for row in (await connection.execute(CONSTRAINTS)).all():
            await connection.exec_driver_sql(f'ALTER TABLE {row.name} DROP CONSTRAINT "{row.conname}"')
        await connection.commit()


async def test_a_busy_cluster_keeps_every_invariant(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await make_busy(cluster)
        found = await audit(cluster.store)
    assert [(finding.invariant.id, finding.rows) for finding in found if not finding.holds] == []


async def test_every_violation_is_found_as_on_sqlite(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await make_busy(cluster)
        await drop_constraints(cluster.store.database)
        for broken in EVERY_BREAK:
            broken.check(await audit(Spoiled(cluster.store, broken.statements)))
        assert all(finding.holds for finding in await audit(cluster.store)), "and everything was undone"


def test_an_audit_of_a_server_reads_and_does_not_write(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    upgraded(postgres_url, report=print)
    assert [finding.invariant for finding in audited(postgres_url).findings] == list(INVARIANTS)
    capsys.readouterr()
    assert audit_command(postgres_url, json=False, only=None) == 0
    out, err = capsys.readouterr()
    assert out.count(" pass ") == len(INVARIANTS)
    assert str(urlsplit(postgres_url).password) not in out + err

    async def write() -> None:
        async with opened(postgres_url, read_only=True) as database, database.writing() as connection:
            await connection.execute(sa.text("DELETE FROM sessions"))

    with pytest.raises(StoreUnavailable, match="read-only transaction"):
        asyncio.run(write())


def test_a_server_without_a_schema_is_not_touched_until_it_is_asked_for(postgres_url: str) -> None:
    with pytest.raises(migration.SchemaMismatch, match="revision none"):
        audited(postgres_url)
    assert checked(postgres_url).after is None
    reported: list[str] = []
    assert upgraded(postgres_url, report=reported.append).current
    assert [line.partition(": ")[2] for line in reported[:1]] == [
        f"from revision none to {checked(postgres_url).newest} ..."
    ]
    assert checked(postgres_url).current


def test_a_database_that_the_server_does_not_have_is_missing(postgres_url: str) -> None:
    nowhere = urlunsplit(urlsplit(postgres_url)._replace(path="/nowhere"))
    with pytest.raises(StoreMissing, match="the server has no database nowhere"):
        audited(nowhere)


def test_a_user_that_the_server_does_not_let_in_gets_an_error(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    stranger = urlunsplit(parts._replace(netloc=f"stranger:geheim@{parts.hostname}:{parts.port}"))
    with pytest.raises(StoreUnavailable, match="stranger") as refused:
        audited(stranger)
    assert "geheim" not in str(refused.value)
