"""Opens the database that a user names, and brings its schema up to date."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings, UnknownDatabase
from sokovan.domain.errors import InvalidInput, SokovanError, StoreUnavailable

STORE_VARIABLE = "SOKOVAN_STORE"
# An audit or a migration of a large database takes longer than a unit of work may.
STATEMENT_TIMEOUT_S = 3600.0
_SQLITE_BEGINS = b"SQLite format 3\x00"
_NO_SUCH_DATABASE = "3D000"


class StoreMissing(SokovanError):
    """There is no database at the address."""

    code = "store-missing"
    hint = f"name the right one with --store or {STORE_VARIABLE}; nothing was created"


class NotADatabase(InvalidInput):
    """A file that is there, and holds something else than a database."""

    code = "not-a-database"
    hint = "name the file that the server keeps its state in, for example sqlite:///var/lib/sokovan/state.db"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """Which schema a database has: `before` a command, `after` it, and the newest."""

    store: str
    before: str | None
    after: str | None
    newest: str

    @property
    def current(self) -> bool:
        """Whether the database is at the newest schema."""
        return self.after == self.newest


def store_address(given: str | None, environment: Mapping[str, str]) -> str:
    """Where the store is: what was given, the environment, or the embedded file."""
    if given is not None:
        return given
    if environment.get(STORE_VARIABLE):
        return environment[STORE_VARIABLE]
    folder = Path(environment.get("XDG_DATA_HOME", ""))
    # A relative path there is to be ignored, says the standard.
    data = folder if folder.is_absolute() else Path(environment.get("HOME", "/")) / ".local" / "share"
    return f"sqlite:///{data / 'sokovan' / 'state.db'}"


def checked(address: str) -> SchemaState:
    """Where the schema of a store stands. Raises as `opened` does."""

    async def look() -> SchemaState:
        async with opened(address, read_only=True) as database:
            state = await migration.revisions(database)
            return SchemaState(shown(database), state.found, state.found, state.newest)

    return asyncio.run(look())


def upgraded(address: str, *, tell: Callable[[str], None]) -> SchemaState:
    """Bring a store to the newest schema, telling each step.

    Raises SchemaMismatch for a schema that this version does not know.
    """

    async def migrate() -> SchemaState:
        async with opened(address, read_only=False) as database:
            before = await migration.revisions(database)
            if not before.known:
                raise migration.SchemaMismatch(
                    f"the database is at revision {before.found}, which this version does not know",
                    hint="use the newest version of sokovan among your machines, and the right database",
                )
            if before.found == before.newest:
                tell(f"{shown(database)} is at revision {before.newest} already")
            else:
                tell(f"{shown(database)}: from revision {before.found or 'none'} to {before.newest} ...")
                await migration.upgrade(database)
                tell("done")
            after = await migration.revisions(database)
            return SchemaState(shown(database), before.found, after.found, after.newest)

    return asyncio.run(migrate())


@asynccontextmanager
async def opened(address: str, *, read_only: bool) -> AsyncIterator[Database]:
    """A database that is there already; a missing one is never made.

    Whatever the database then says comes as an error of ours. Raises UnknownDatabase,
    StoreMissing, NotADatabase, StoreUnavailable.
    """
    settings = DatabaseSettings(address, pool_size=1, statement_timeout_s=STATEMENT_TIMEOUT_S, read_only=read_only)
    try:
        database = Database(settings, clock=SystemClock())
    except ModuleNotFoundError as error:
        hint = "install the driver: pip install 'sokovan[postgres]'"
        raise StoreUnavailable(f"{error.name} is not installed", hint=hint) from error
    try:
        if not database.is_postgresql:
            _require_file(database)
        try:
            await _reach(database)
            yield database
        except _driver_errors(database) as error:
            raise _plain(error, database) from error
    finally:
        await database.close()


def shown(database: Database) -> str:
    """The address as it may be shown: without password and options."""
    url = database.url.set(query={}, drivername=database.url.get_backend_name())
    return url.render_as_string(hide_password=True)


def _require_file(database: Database) -> None:
    name = database.url.database
    if database.in_memory or name is None or name.startswith("file:") or database.url.query:
        raise UnknownDatabase("a store to look into is a file or a server", hint="use sqlite:///path/to/state.db")
    path = Path(name)
    try:
        with path.open("rb") as stream:
            begins = stream.read(len(_SQLITE_BEGINS))
    except FileNotFoundError as error:
        raise StoreMissing(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise NotADatabase(f"{path} is a folder") from error
    except OSError as error:
        hint = "see whether you may read the file and everything above it"
        raise StoreUnavailable(f"cannot read {path}: {error.strerror or error}", hint=hint) from error
    # An empty file is an empty database.
    if begins and begins != _SQLITE_BEGINS:
        raise NotADatabase(f"{path} is not a SQLite database")


async def _reach(database: Database) -> None:
    """Connect once: an address is seen to be wrong only then, if at all."""
    try:
        async with database.engine.connect():
            pass
    except (TypeError, ValueError) as error:
        hint = "leave out what follows the ?, or see the options of asyncpg.connect"
        raise UnknownDatabase(f"the options of {shown(database)} cannot be used", hint=hint) from error


def _driver_errors(database: Database) -> tuple[type[Exception], ...]:
    """What a failing database raises; drivers do not wrap what happens while they connect."""
    common = (SQLAlchemyError, OSError)
    if not database.is_postgresql:
        return (*common, sqlite3.Error)
    # Only there with the extra `postgres`, and without types.
    from asyncpg import InterfaceError, PostgresError  # type: ignore[import-untyped]  # noqa: PLC0415  # a late import

    return (*common, PostgresError, InterfaceError)


def _plain(error: Exception, database: Database) -> SokovanError:
    """A driver's error in our words, without the statement and its parameters."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if getattr(cause, "sqlstate", None) == _NO_SUCH_DATABASE:
        return StoreMissing(f"the server has no database {database.url.database}")
    text = (getattr(cause, "strerror", None) or str(cause) or type(cause).__name__).partition("\n")[0]
    if isinstance(error, OSError):
        return StoreUnavailable(f"cannot reach {shown(database)}: {text}")
    hint = "check that the address, the user and the database are the right ones, then try again"
    return StoreUnavailable(f"{shown(database)} cannot be read: {text}", hint=hint)
