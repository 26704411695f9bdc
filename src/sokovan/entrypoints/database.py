"""Opens the database that a user names, and upgrades its schema."""

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
from sokovan.adapters.sql.connections.address import UnknownDatabase
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.domain.errors import InvalidInput, SokovanError, StoreUnavailable
from sokovan.entrypoints.embedded.data_folder import data_home
from sokovan.entrypoints.settings.component_options import DATA_FOLDER_STORE
from sokovan.entrypoints.settings.setting_sources import sources_of

STORE_VARIABLE = "SOKOVAN_STORE"
# An audit or a migration of a large database takes longer than a unit of work may.
STATEMENT_TIMEOUT_S = 3600.0
# Commands may be silent for longer than managers: their transactions are not ended for that.
COMMAND_APPLICATION = "sokovan-command"
_SQLITE_BEGINS = b"SQLite format 3\x00"
_NO_SUCH_DATABASE = "3D000"


class StoreMissing(SokovanError):
    """No database exists at the address."""

    code = "store-missing"
    hint = f"name the right one with --store or {STORE_VARIABLE}; nothing was created"


class NotADatabase(InvalidInput):
    """The file exists, but is not a database."""

    code = "not-a-database"
    hint = "name the state file of the server, for example sqlite:///var/lib/sokovan/state.db"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema revision of a database: before and after a command, and the newest."""

    store: str
    before: str | None
    after: str | None
    newest: str

    @property
    def current(self) -> bool:
        """Whether the database is at the newest schema."""
        return self.after == self.newest


def store_address(given: str | None, environment: Mapping[str, str]) -> str:
    """The address of the store: given, from the environment, or that of `sokovan up`.

    The latter is the setting storage.url of this machine. Raises UnreadableConfig,
    SettingFileMissing.
    """
    if given is not None:
        return given
    if environment.get(STORE_VARIABLE):
        return environment[STORE_VARIABLE]
    data = data_home(environment)
    storage = sources_of(None, data, environment=environment).local_tree().values.get("storage")
    url = storage.get("url") if isinstance(storage, Mapping) else None
    return url if isinstance(url, str) and url != DATA_FOLDER_STORE else f"sqlite:///{data / 'state.db'}"


def checked(address: str) -> SchemaState:
    """Read the schema revision of a store. Raises like `opened`."""

    async def check() -> SchemaState:
        async with opened(address, read_only=True) as database:
            state = await migration.revisions(database)
            return SchemaState(shown(database), state.found, state.found, state.newest)

    return asyncio.run(check())


def upgraded(address: str, *, report: Callable[[str], None]) -> SchemaState:
    """Upgrade a store to the newest schema, and report each step.

    Raises SchemaMismatch for a schema that is unknown to this version.
    """

    async def migrate() -> SchemaState:
        async with opened(address, read_only=False) as database:
            before = await migration.revisions(database)
            if not before.known:
                raise migration.SchemaMismatch(
                    f"the database is at revision {before.found}, which is unknown to this version",
                    hint="use the newest version of sokovan among your machines, and the right database",
                )
            if before.found == before.newest:
                report(f"{shown(database)} is at revision {before.newest} already")
            else:
                report(f"{shown(database)}: from revision {before.found or 'none'} to {before.newest} ...")
                await migration.upgrade(database)
                report("done")
            after = await migration.revisions(database)
            return SchemaState(shown(database), before.found, after.found, after.newest)

    return asyncio.run(migrate())


@asynccontextmanager
async def opened(address: str, *, read_only: bool) -> AsyncIterator[Database]:
    """Open an existing database; a missing one is never created.

    Errors of the driver are converted. Raises UnknownDatabase, StoreMissing,
    NotADatabase, StoreUnavailable.
    """
    settings = DatabaseSettings(
        address,
        pool_size=1,
        statement_timeout_s=STATEMENT_TIMEOUT_S,
        read_only=read_only,
        application=COMMAND_APPLICATION,
    )
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
            raise _converted(error, database) from error
    finally:
        await database.close()


def shown(database: Database) -> str:
    """The address for display, without password and options."""
    url = database.url.set(query={}, drivername=database.url.get_backend_name())
    return url.render_as_string(hide_password=True)


def _require_file(database: Database) -> None:
    name = database.url.database
    if database.in_memory or name is None or name.startswith("file:") or database.url.query:
        raise UnknownDatabase("the store must be a file or a server", hint="use sqlite:///path/to/state.db")
    path = Path(name)
    try:
        with path.open("rb") as stream:
            begins = stream.read(len(_SQLITE_BEGINS))
    except FileNotFoundError as error:
        raise StoreMissing(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise NotADatabase(f"{path} is a folder") from error
    except OSError as error:
        hint = "check that you may read the file and the folders above it"
        raise StoreUnavailable(f"cannot read {path}: {error.strerror or error}", hint=hint) from error
    # An empty file is an empty database.
    if begins and begins != _SQLITE_BEGINS:
        raise NotADatabase(f"{path} is not a SQLite database")


async def _reach(database: Database) -> None:
    """Connect once, because a wrong address is detected only then."""
    try:
        async with database.engine.connect():
            pass
    except (TypeError, ValueError) as error:
        hint = "remove the part after the ?, or see the options of asyncpg.connect"
        raise UnknownDatabase(f"the options of {shown(database)} cannot be used", hint=hint) from error


def _driver_errors(database: Database) -> tuple[type[Exception], ...]:
    """The exceptions of a failing database; errors while connecting are not wrapped."""
    common = (SQLAlchemyError, OSError)
    if not database.is_postgresql:
        return (*common, sqlite3.Error)
    # Installed only with the extra `postgres`, and untyped.
    from asyncpg import InterfaceError, PostgresError  # type: ignore[import-untyped]  # noqa: PLC0415  # a late import

    return (*common, PostgresError, InterfaceError)


def _converted(error: Exception, database: Database) -> SokovanError:
    """The SokovanError for a driver's error, without the statement and its parameters."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if getattr(cause, "sqlstate", None) == _NO_SUCH_DATABASE:
        return StoreMissing(f"the server has no database {database.url.database}")
    text = (getattr(cause, "strerror", None) or str(cause) or type(cause).__name__).partition("\n")[0]
    if isinstance(error, OSError):
        return StoreUnavailable(f"cannot reach {shown(database)}: {text}")
    hint = "check that the address, the user and the database are the right ones, then try again"
    return StoreUnavailable(f"{shown(database)} cannot be read: {text}", hint=hint)
