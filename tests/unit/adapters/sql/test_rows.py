"""Rows that are bound as one parameter, on both databases."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from sokovan.adapters.sql.rows import FLAG, TEXT, WHOLE, Rows
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.dialects import POSTGRESQL, SQLITE

COLUMNS: dict[str, TypeEngine[Any]] = {"name": TEXT, "amount": WHOLE, "sure": FLAG}
ROWS = [("a'b\"c\\d %s :x ñ", 2**53, True), ("", -1, False), (None, None, None)]


def test_many_rows_are_one_parameter_on_both_databases() -> None:
    for is_postgresql, dialect in ((True, POSTGRESQL), (False, SQLITE)):
        rows = Rows("them", COLUMNS, postgresql=is_postgresql)
        compiled = sa.select(rows.c.name).compile(dialect=dialect)
        assert set(rows.bind(ROWS)) == {"them"} <= set(compiled.params)


def test_each_database_unpacks_them_in_its_own_way() -> None:
    of_postgresql = sa.select(Rows("them", COLUMNS, postgresql=True).c.name).compile(dialect=POSTGRESQL)
    of_sqlite = sa.select(Rows("them", COLUMNS, postgresql=False).c.name).compile(dialect=SQLITE)
    assert "jsonb_array_elements" in str(of_postgresql)
    assert "json_each" in str(of_sqlite)
    assert list(Rows("them", COLUMNS, postgresql=True).c.keys()) == list(COLUMNS)


async def unpacked(url: str, rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    async with StoredCluster.open(url) as cluster:
        table = Rows("them", COLUMNS, postgresql=cluster.store.database.is_postgresql)
        statement = sa.select(table.c.name, table.c.amount, table.c.sure)
        found = await cluster.store.read(lambda unit: unit.transaction.fetch(statement, table.bind(rows)))
        return [tuple(row) for row in found]


@pytest.mark.parametrize("rows", [ROWS, [], [("one", 1, True)]], ids=["several", "none", "one"])
async def test_sqlite_reads_what_was_bound(rows: list[tuple[object, ...]]) -> None:
    assert await unpacked("sqlite://", rows) == rows


@pytest.mark.parametrize("rows", [ROWS, []], ids=["several", "none"])
async def test_postgresql_reads_what_was_bound(rows: list[tuple[object, ...]], postgres_url: str) -> None:
    assert await unpacked(postgres_url, rows) == rows
