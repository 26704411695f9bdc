"""Statements on the driver: the same results, errors and counts as through SQLAlchemy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import IntegrityError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql import compiled_statements
from sokovan.adapters.sql.compiled_statements import run
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.rows import FLAG, TEXT, WHOLE, Rows
from sokovan.testing.clock import VirtualClock

METADATA = sa.MetaData()
PARTS = sa.Table(
    "parts",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("amount", sa.BigInteger, nullable=False, server_default="7"),
    sa.Column("present", sa.Boolean, nullable=False, server_default=sa.true()),
)
NAMED = sa.select(PARTS).where(PARTS.c.name == sa.bindparam("wanted"))
ADD = sa.insert(PARTS)
GIVEN = Rows("given", {"name": TEXT, "amount": WHOLE, "present": FLAG}, postgresql=False)
STATEMENTS: list[tuple[str, Any, Any]] = [
    ("a select", sa.select(PARTS).order_by(PARTS.c.name), None),
    ("a bound select", NAMED, {"wanted": "b"}),
    ("a value inside the statement", sa.select(PARTS.c.amount).where(PARTS.c.name == "b"), None),
    ("a label", sa.select((PARTS.c.amount + 1).label("more"), sa.func.count().label("n")), None),
    ("flags", sa.select(PARTS.c.name, PARTS.c.present).where(PARTS.c.present.is_(False)), None),
    ("a union", sa.union_all(sa.select(PARTS.c.name), sa.select(PARTS.c.name)), None),
    ("a limit", sa.select(PARTS.c.name).order_by(PARTS.c.name).limit(1).offset(1), None),
    ("a list of values", sa.select(PARTS.c.name).where(PARTS.c.name.in_(["a", "c"])), None),
    ("plain text", sa.text("SELECT name, amount FROM parts WHERE name = :name"), {"name": "a"}),
    ("an insert", ADD, {"name": "d", "amount": 4, "present": False}),
    ("an insert with defaults", ADD, {"name": "d"}),
    ("an insert with its values", sa.insert(PARTS).values(name="d", amount=3), None),
    ("several inserts", ADD, [{"name": "d", "amount": 4}, {"name": "e", "amount": 5}]),
    ("an insert that returns", sa.insert(PARTS).values(name="d").returning(PARTS.c.amount, PARTS.c.present), None),
    ("an insert unless there is one", sqlite_insert(PARTS).values(name="a").on_conflict_do_nothing(), None),
    ("an update", sa.update(PARTS).where(PARTS.c.amount > 1).values(amount=PARTS.c.amount + 1), None),
    ("an update by parameters", sa.update(PARTS).where(PARTS.c.name == sa.bindparam("n")), {"n": "a", "amount": 9}),
    ("a delete", sa.delete(PARTS).where(PARTS.c.name == sa.bindparam("n")), {"n": "a"}),
    ("bound rows", sa.select(GIVEN.table), GIVEN.bind([("x", 1, True), ("y", 2, False)])),
]


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    made = Database(DatabaseSettings("sqlite://"), clock=VirtualClock())
    yield made
    await made.close()


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[AsyncConnection]:
    async with database.writing() as connection:
        await connection.run_sync(METADATA.create_all)
        rows = [("a", 1, True), ("b", 2, False), ("c", 3, True)]
        await connection.execute(ADD, [dict(zip(("name", "amount", "present"), row, strict=True)) for row in rows])
        yield connection


async def contents(connection: AsyncConnection) -> list[Any]:
    return list((await connection.execute(sa.select(PARTS).order_by(PARTS.c.name))).all())


@pytest.mark.parametrize(("statement", "parameters"), [pytest.param(*rest, id=name) for name, *rest in STATEMENTS])
async def test_it_does_what_sqlalchemy_does(connection: AsyncConnection, statement: Any, parameters: Any) -> None:
    async with connection.begin_nested() as savepoint:
        result = await connection.execute(statement, parameters)
        expected = list(result.all()) if result.returns_rows else []
        after = await contents(connection)
        await savepoint.rollback()
    for _ in range(2):  # compiled, and compiled already
        async with connection.begin_nested() as savepoint:
            found = await run(connection, statement, parameters)
            assert list(found.rows) == expected
            assert [row._mapping for row in found.rows] == [row._mapping for row in expected]
            assert await contents(connection) == after
            if not expected:
                assert found.changed == result.rowcount
            await savepoint.rollback()


async def test_columns_are_read_by_name_with_their_types(connection: AsyncConnection) -> None:
    (row,) = (await run(connection, NAMED, {"wanted": "b"})).rows
    assert (row.name, row.amount, row.present) == ("b", 2, False)
    assert row.present is False


async def test_one_statement_runs_with_other_values_each_time(connection: AsyncConnection) -> None:
    amounts = [(await run(connection, NAMED, {"wanted": name})).rows[0].amount for name in ("a", "b", "c", "a")]
    assert amounts == [1, 2, 3, 1]


async def test_statements_of_one_structure_keep_their_own_values(connection: AsyncConnection) -> None:
    statements = [sa.select(PARTS.c.amount).where(PARTS.c.name == name) for name in ("c", "b", "a")]
    assert [(await run(connection, one)).rows[0].amount for one in statements] == [3, 2, 1]


async def test_errors_are_those_of_sqlalchemy_without_the_values(connection: AsyncConnection) -> None:
    with pytest.raises(IntegrityError) as caught:
        await run(connection, ADD, {"name": "a", "amount": 123456})
    assert "123456" not in str(caught.value)


async def test_a_missing_value_is_refused(connection: AsyncConnection) -> None:
    with pytest.raises(InvalidRequestError, match="wanted"):
        await run(connection, NAMED)


async def test_statements_that_are_gone_are_forgotten(connection: AsyncConnection) -> None:
    before = len(compiled_statements._KNOWN)
    for number in range(50):
        await run(connection, sa.select(PARTS.c.name).where(PARTS.c.amount == number))
    assert len(compiled_statements._KNOWN) <= before + 1
