"""Rows that are bound as one parameter, or read as one value, on both databases."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from sokovan.adapters.sql.rows import (
    FLAG,
    MANY,
    TEXT,
    WHOLE,
    OccasionalColumns,
    Rows,
    changed_places,
    common_columns,
    packed_rows,
)
from sokovan.adapters.sql.schema.tables import KERNELS
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


@pytest.mark.parametrize("amount", [2**53, None])
@pytest.mark.parametrize("common", [{"amount"}, {"sure"}, {"amount", "sure"}])
async def test_columns_that_all_rows_have_in_common_are_bound_once(common: set[str], amount: int | None) -> None:
    rows = [(name, amount, True) for name in ("a'b", "", "ñ")]
    table = Rows("them", COLUMNS, postgresql=False, common=common)
    assert set(table.bind(rows)) == {"them", *(f"them_{name}" for name in common)}
    async with StoredCluster.open() as cluster:
        statement = sa.select(table.c.name, table.c.amount, table.c.sure)
        found = await cluster.store.read(lambda unit: unit.transaction.fetch(statement, table.bind(rows)))
    assert [tuple(row) for row in found] == rows


def test_rows_written_together_get_the_columns_that_any_of_them_changes() -> None:
    columns, stored = (
        OccasionalColumns(("cause", "ended", "result"), first=1),
        SimpleNamespace(cause=None, ended=None, result="x"),
    )
    kept, ended = ("a", None, None, "x"), ("b", None, 9, "y")
    assert columns.changed([]) == columns.changed([(stored, kept)]) == ()
    assert columns.changed([(stored, kept), (stored, ended)]) == ("ended", "result")
    assert columns.chosen([kept, ended], ("ended",)) == [("a", None), ("b", 9)]
    assert columns.chosen([kept, ended], ("cause", "ended", "result")) == [kept, ended]


def test_the_places_at_which_any_row_differs_are_found() -> None:
    before = [(1, "a", None, True), (2, "a", None, True)]
    assert changed_places(before, [(1, "a", None, True), (2, "a", None, True)]) == []
    assert changed_places(before, [(1, "b", None, True), (2, "a", 5, True)]) == [1, 2]
    assert changed_places([], []) == []


def test_only_many_rows_on_sqlite_have_columns_in_common() -> None:
    rows = [("same", number, None) for number in range(MANY)]
    assert common_columns(rows, COLUMNS, postgresql=False) == {"sure"}
    assert common_columns(rows, COLUMNS, postgresql=True) == set()
    assert common_columns(rows[1:], COLUMNS, postgresql=False) == set()
    assert common_columns([], COLUMNS, postgresql=False) == set()


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


async def packed(url: str) -> dict[str, list[list[object]]]:
    async with StoredCluster.open(url) as cluster:
        await cluster.agent("a@1")
        for name, size in (("s", 3), ("t", 1), ("other", 1)):
            await cluster.submit(name, kernels=size)
        await cluster.place("s", *["a@1"] * 3)
        columns = [KERNELS.c[name] for name in ("kernel_id", "agent_id", "index", "sent")]
        statement = packed_rows(
            columns,
            KERNELS.c.session_id.in_(["s", "t"]),
            key=KERNELS.c.session_id,
            order=KERNELS.c.index,
            postgresql=cluster.store.database.is_postgresql,
        )
        found = await cluster.store.read(lambda unit: unit.transaction.fetch(statement))
        return {row.session_id: msgspec.json.decode(row.packed) for row in found}


PACKED = {"s": [[f"s.{index}", "a@1", index, False] for index in range(3)], "t": [["t.0", None, 0, False]]}


async def test_rows_of_a_key_come_as_one_text_in_their_order() -> None:
    assert await packed("sqlite://") == PACKED


async def test_rows_of_a_key_come_as_one_text_from_postgresql(postgres_url: str) -> None:
    assert await packed(postgres_url) == PACKED
