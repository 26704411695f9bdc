"""Upgrades a database to the newest schema by migrations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.schema.tables import METADATA
from sokovan.domain.errors import SokovanError

_MIGRATIONS = Path(__file__).parent / "migrations"
# A lock id that other programs on the same database are unlikely to use: "sokovan" in ASCII.
_UPGRADE_LOCK = int.from_bytes(b"sokovan")


class SchemaMismatch(SokovanError):
    """The schema of the database does not match this version of sokovan."""

    code = "schema-mismatch"
    hint = "run `sokovan db upgrade` once, with the newest version of sokovan among your machines"


async def upgrade(database: Database) -> None:
    """Upgrade a database to the newest schema.

    An empty database gets the current tables directly, which is faster than running
    all migrations and has the same result.
    """
    script = _script()

    def create(connection: Connection) -> bool:
        if sa.inspect(connection).get_table_names():
            return False
        METADATA.create_all(connection)
        MigrationContext.configure(connection).stamp(script, "head")
        return True

    async with _exclusive(database) as connection:
        created = await connection.run_sync(create)
        await connection.commit()
    if not created:
        await upgrade_by_steps(database)


async def upgrade_by_steps(database: Database, target: str = "head") -> None:
    """Apply every migration up to `target` that is missing, in one transaction."""
    await _run(database, lambda script, revision: script._upgrade_revs(target, revision))


async def downgrade(database: Database, target: str) -> None:
    """Downgrade to an earlier revision; `base` removes everything."""
    await _run(database, lambda script, revision: script._downgrade_revs(target, revision))


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revision of a database, and the one that this version requires.

    `known` is false if a newer version or another program wrote the revision.
    """

    found: str | None
    newest: str
    known: bool


async def revisions(database: Database) -> Revisions:
    """Read the revision of a database."""
    async with database.reading() as connection:
        found = await connection.run_sync(_revision)
    script = _script()
    steps = {step.revision for step in script.walk_revisions()}
    return Revisions(found, newest=str(script.get_current_head()), known=found is None or found in steps)


async def check(database: Database) -> None:
    """Raises SchemaMismatch unless the database is at the newest revision."""
    state = await revisions(database)
    if state.found != state.newest:
        raise SchemaMismatch(f"the database is at revision {state.found or 'none'}, this version needs {state.newest}")


async def _run(database: Database, steps: Callable[[ScriptDirectory, Any], Any]) -> None:
    script = _script()

    def migrate(connection: Connection) -> None:
        # One transaction for all steps, so that an upgrade is applied as a whole or not at all.
        context = EnvironmentContext(_config(), script, fn=lambda revision, _: steps(script, revision))
        with context:
            context.configure(connection=connection, transactional_ddl=True)
            context.run_migrations()

    async with _exclusive(database) as connection:
        await connection.run_sync(migrate)
        await connection.commit()


@asynccontextmanager
async def _exclusive(database: Database) -> AsyncIterator[AsyncConnection]:
    """A transaction exclusive to one upgrade; a concurrent upgrade waits and finds nothing to do."""
    async with database.writing() as connection:
        if database.is_postgresql:
            await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
        yield connection


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


@cache
def _script() -> ScriptDirectory:
    """The migrations, whose modules are loaded once."""
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("version_locations", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    return config
