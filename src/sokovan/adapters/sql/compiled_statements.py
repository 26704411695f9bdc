"""Runs statements on the SQLite driver itself, each compiled once.

SQLAlchemy keeps what it compiled, but for every execution it looks the statement up by
its structure and makes a context, a cursor and a result, switching greenlets for each.
That takes several times as long as SQLite's own work. Here a statement that lives as
long as the process is compiled at its first use, bound, and passed to the driver.

What this cannot run (a list of values in one parameter, values computed by Python for
an insert, plain text) is left to SQLAlchemy; results are the same either way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.engine import Row
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.util import LRUCache

from sokovan.adapters.sql.sqlite_connections import SqliteConnection, as_database_error
from sokovan.adapters.sql.sqlite_driver import OneHopConnection

# More than there are different statements.
STATEMENTS_MAX = 2_000
_DIALECT = SQLiteDialect_aiosqlite()
# By structure, for statements that are built for one execution.
_BY_STRUCTURE: LRUCache[Any, Any] = LRUCache(STATEMENTS_MAX)


class StatementResult(NamedTuple):
    """The rows of a statement and the number of rows that it changed."""

    rows: Sequence[Row[Any]]
    changed: int


class BoundParameter(NamedTuple):
    """One place in the SQL text: the name of its value and how that is converted."""

    name: str
    key: str
    required: bool
    convert: Callable[[Any], Any] | None


class CompiledForm:
    """The SQL, parameters and columns of all statements of one structure."""

    def __init__(self, compiled: SQLCompiler) -> None:
        self.sql = compiled.string
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        converters: Mapping[str, Any] = compiled._bind_processors
        self.parameters = [
            BoundParameter(name, binds[name].key, binds[name].required, converters.get(name))
            for name in compiled.positiontup or ()
        ]
        columns = compiled._result_columns
        self.returns_rows = bool(columns)
        self._metadata = SimpleResultMetaData([column.keyname for column in columns])
        self._keys = self._metadata._key_to_index
        processors = [column.type._cached_result_processor(_DIALECT, None) for column in columns]
        self._processors = processors if any(processors) else None

    def rows(self, raw: Sequence[Any]) -> list[Row[Any]]:
        """The driver's rows, with columns by name."""
        metadata, processors, keys = self._metadata, self._processors, self._keys
        return [Row(metadata, processors, keys, one) for one in raw]


class DirectStatement(NamedTuple):
    """A statement that the driver can run: its form and its own values."""

    form: CompiledForm
    values: Mapping[str, Any]

    def bound(self, given: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the SQL text.

        Raises InvalidRequestError if one is missing.
        """
        return [self._converted(parameter, given) for parameter in self.form.parameters]

    def _converted(self, parameter: BoundParameter, given: Mapping[str, Any]) -> Any:
        if parameter.key in given:
            value = given[parameter.key]
        elif parameter.required:
            raise sa.exc.InvalidRequestError(f"a value is required for the parameter {parameter.key!r}")
        else:
            value = self.values[parameter.name]
        return value if parameter.convert is None else parameter.convert(value)


async def run(connection: AsyncConnection, statement: sa.Executable, parameters: Any = None) -> StatementResult:
    """Run a statement in the connection's transaction.

    With a list of parameters, once for each set.
    """
    driver = driver_of(connection)
    direct = None if driver is None else _direct(statement, parameters)
    if driver is None or direct is None:
        result = await connection.execute(statement, parameters)
        return StatementResult(result.all() if result.returns_rows else (), result.rowcount)
    cursor = driver.cursor()
    many = isinstance(parameters, list)
    bound = [direct.bound(one) for one in parameters] if many else direct.bound(parameters or {})
    _notify(connection, cursor, direct.form.sql, bound, many=many)
    try:
        await (cursor.executemany if many else cursor.execute)(direct.form.sql, bound)
        raw = await cursor.fetchall()
        await cursor.close()
    except sqlite3.Error as error:
        raise as_database_error(error, direct.form.sql) from error
    return StatementResult(direct.form.rows(raw), cursor.rowcount)


def _notify(connection: AsyncConnection, cursor: object, sql: str, bound: object, *, many: bool) -> None:
    """Call those who listen to the statements of the engine, as SQLAlchemy does."""
    pooled = connection.sync_connection
    if pooled is not None:
        for listener in pooled.dispatch.before_cursor_execute:
            listener(pooled, cursor, sql, bound, None, many)


def _direct(statement: sa.Executable, parameters: Any) -> DirectStatement | None:
    """The compiled form for parameters of these names, or None if SQLAlchemy must run the statement."""
    many = isinstance(parameters, list)
    if many and not parameters:
        return None
    keys = tuple(sorted((parameters[0] if many else parameters) or ()))
    forms = _KNOWN.get(statement)
    if forms is None:
        forms = _KNOWN[statement] = {}
    if keys not in forms:
        forms[keys] = _compiled(statement, keys)
    direct = forms[keys]
    return None if many and direct is not None and direct.form.returns_rows else direct


# By identity, for statements that live as long as the process: names of parameters, compiled form.
_KNOWN: WeakKeyDictionary[sa.Executable, dict[tuple[str, ...], DirectStatement | None]] = WeakKeyDictionary()

_FORMS: WeakKeyDictionary[SQLCompiler, CompiledForm] = WeakKeyDictionary()


def driver_of(connection: AsyncConnection) -> OneHopConnection | None:
    """The driver's connection, if it is one to SQLite."""
    if isinstance(connection, SqliteConnection):
        return connection.driver
    pooled = connection.sync_connection
    driver = None if pooled is None else pooled.connection.driver_connection
    return driver if isinstance(driver, OneHopConnection) else None


def _compiled(statement: Any, keys: tuple[str, ...]) -> DirectStatement | None:
    """The compiled form, or None if SQLAlchemy must run the statement."""
    if not isinstance(statement, sa.Select | sa.CompoundSelect | sa.Insert | sa.Update | sa.Delete):
        return None
    compiled, extracted, collected, _ = statement._compile_w_cache(
        _DIALECT, compiled_cache=_BY_STRUCTURE, column_keys=list(keys)
    )
    if not isinstance(compiled, SQLCompiler) or _needs_context(compiled):
        return None
    form = _FORMS.get(compiled)
    if form is None:
        form = _FORMS[compiled] = CompiledForm(compiled)
    values = compiled.construct_params(
        None, extracted_parameters=extracted, escape_names=False, _check=False, _collected_params=collected
    )
    return DirectStatement(form, values)


def _needs_context(compiled: SQLCompiler) -> bool:
    """Whether SQLAlchemy computes values or SQL text at each execution."""
    return bool(
        compiled.post_compile_params
        or compiled.literal_execute_params
        or compiled.insert_prefetch
        or compiled.update_prefetch
        or any(bind.callable is not None for bind in compiled.bind_names)
    )
