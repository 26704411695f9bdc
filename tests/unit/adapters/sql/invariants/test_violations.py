"""Rows that violate an invariant: the first of them, and their number."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.invariants import violations as violations_module
from sokovan.adapters.sql.invariants.violations import ROWS_MAX, Check, Violations, grouped, no_row, unequal
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.testing.stored_cluster import StoredCluster


def table_of(*rows: tuple[str, int]) -> sa.Select[Any]:
    """Rows of a name and an amount, as a statement."""
    lines = [sa.select(sa.literal(name).label("name"), sa.literal(amount).label("amount")) for name, amount in rows]
    return sa.select(sa.union_all(*lines).subquery())


async def found_by(check: Check) -> Violations:
    """The violations that a check finds in an empty store."""
    violations = Violations()

    async def work(unit: SqlUnitOfWork) -> None:
        await check(unit.transaction, violations)

    async with StoredCluster.open() as cluster:
        await cluster.store.read(work)
    return violations


def test_only_the_first_rows_are_kept_and_all_are_counted() -> None:
    violations = Violations()
    violations.extend("wrong", [{"n": n} for n in range(ROWS_MAX - 1)], count=ROWS_MAX - 1)
    violations.add("odd", n=-1)
    violations.add("too much", n=-2)
    violations.extend("wrong", [{"n": -3}], count=1_000)
    assert violations.count == ROWS_MAX + 1 + 1_000
    assert [(one.problem, one.row) for one in violations.rows[-2:]] == [
        ("wrong", {"n": ROWS_MAX - 2}),
        ("odd", {"n": -1}),
    ]


async def test_a_statement_without_rows_finds_nothing() -> None:
    violations = await found_by(no_row("wrong", table_of(("a", 1)).where(sa.false())))
    assert (violations.count, violations.rows) == (0, [])


@pytest.mark.slow
async def test_rows_come_in_the_order_of_their_columns() -> None:
    violations = await found_by(no_row("wrong", table_of(("b", 1), ("a", 2), ("a", 1))))
    assert [tuple(one.row.values()) for one in violations.rows] == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize("number", [ROWS_MAX - 1, ROWS_MAX, ROWS_MAX + 7])
async def test_the_full_number_is_reported(number: int) -> None:
    violations = await found_by(no_row("wrong", table_of(*[("a", n) for n in range(number)])))
    assert (violations.count, len(violations.rows)) == (number, min(number, ROWS_MAX))


async def test_what_is_kept_is_compared_with_the_sum_of_what_it_stands_for() -> None:
    kept = table_of(("same", 3), ("more", 5), ("only kept", 1), ("nothing", 0))
    counted = table_of(("same", 1), ("same", 2), ("more", 4), ("only counted", 2))
    violations = await found_by(no_row("wrong", unequal(kept, counted, "name")))
    assert [tuple(one.row.values()) for one in violations.rows] == [
        ("more", 5, 4),
        ("only counted", 0, 2),
        ("only kept", 1, 0),
    ]


@pytest.mark.parametrize(
    ("rows", "runs"),
    [
        ([], []),
        ([("a", 1)], [("a", [1])]),
        ([("a", 1), ("a", 2), ("b", 3), ("c", 4), ("c", 5)], [("a", [1, 2]), ("b", [3]), ("c", [4, 5])]),
    ],
)
async def test_rows_with_one_value_stay_together(
    rows: list[tuple[str, int]], runs: list[tuple[str, list[int]]]
) -> None:
    statement = table_of(*rows) if rows else table_of(("a", 1)).where(sa.false())

    async def work(unit: SqlUnitOfWork) -> list[tuple[str, list[int]]]:
        found = grouped(unit.transaction, statement, by="name")
        return [(name, [row.amount for row in run]) async for name, run in found]

    async with StoredCluster.open() as cluster:
        assert await cluster.store.read(work) == runs


async def test_groups_are_whole_although_their_rows_come_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(violations_module, "PART", 2)
    rows = [(name, amount) for name, count in (("a", 3), ("b", 1), ("c", 4)) for amount in range(count)]
    statement = table_of(*rows).order_by(sa.text("name"), sa.text("amount"))
    found: dict[str, list[int]] = {}

    async def work(unit: SqlUnitOfWork) -> None:
        async for name, group in grouped(unit.transaction, statement, by="name"):
            found[name] = [row.amount for row in group]

    async with StoredCluster.open() as cluster:
        await cluster.store.read(work)
    assert found == {"a": [0, 1, 2], "b": [0], "c": [0, 1, 2, 3]}
