"""Rows that violate an invariant: the first of them, and their number."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.transaction import Transaction

# Rows listed per invariant, so that a corrupt store does not flood the output.
ROWS_MAX = 100
# Rows that are grouped before other tasks run, in a few milliseconds. To fetch them one by one costs much more.
PART = 500


@dataclass(frozen=True, slots=True)
class Violation:
    """One row that violates an invariant, and the problem."""

    problem: str
    row: Mapping[str, Any]


@dataclass(slots=True)
class Violations:
    """The violations of one invariant: the first `rows`, and the full `count`."""

    rows: list[Violation] = field(default_factory=list)
    count: int = 0

    def add(self, problem: str, **row: Any) -> None:
        """Add one row."""
        self.extend(problem, [row], count=1)

    def extend(self, problem: str, rows: Sequence[Mapping[str, Any]], *, count: int) -> None:
        """Add the first of `count` rows with the same problem."""
        self.count += count
        self.rows += [Violation(problem, dict(row)) for row in rows[: ROWS_MAX - len(self.rows)]]


Check: TypeAlias = Callable[[Transaction, Violations], Awaitable[None]]


def no_row(problem: str, statement: sa.Select[Any]) -> Check:
    """A check by a statement that selects violating rows."""
    found = statement.subquery()
    first = sa.select(found).order_by(*found.c).limit(ROWS_MAX)
    number = sa.select(sa.func.count().label("number")).select_from(found)

    async def check(transaction: Transaction, violations: Violations) -> None:
        rows = [dict(row._mapping) for row in await transaction.fetch(first)]
        count = len(rows)
        if count == ROWS_MAX:
            count = (await transaction.fetch(number))[0].number
        violations.extend(problem, rows, count=count)

    return check


def unequal(kept: sa.Select[Any], counted: sa.Select[Any], *keys: str) -> sa.Select[Any]:
    """Selects keys whose stored `amount` is not the sum of the counted amounts.

    Both statements select the keys and an `amount`. A key that only one of them has
    counts as 0 in the other.
    """
    one, other = kept.subquery(), counted.subquery()
    zero = sa.literal(0, sa.BigInteger())
    both = sa.union_all(
        sa.select(*[one.c[key] for key in keys], one.c.amount.label("kept"), zero.label("counted")),
        sa.select(*[other.c[key] for key in keys], zero.label("kept"), other.c.amount.label("counted")),
    ).subquery()
    stated, summed = whole(sa.func.sum(both.c.kept)), whole(sa.func.sum(both.c.counted))
    named = [both.c[key] for key in keys]
    return sa.select(*named, stated.label("kept"), summed.label("counted")).group_by(*named).having(stated != summed)


def whole(amount: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Cast a sum to an integer on both databases."""
    return sa.cast(amount, sa.BigInteger())


async def grouped(
    transaction: Transaction, statement: sa.Select[Any], *, by: str
) -> AsyncIterator[tuple[Any, list[Row[Any]]]]:
    """Group consecutive rows of a statement by a column.

    The statement is ordered by that column. Rows are streamed: only one group and one part
    of the rows are in memory at a time. Other tasks run between the parts.
    """
    current: Any = None
    run: list[Row[Any]] = []
    async with transaction.connection.stream(statement, execution_options={"yield_per": PART}) as rows:
        async for part in rows.partitions(PART):
            for row in part:
                value = row._mapping[by]
                if run and value != current:
                    yield current, run
                    run = []
                current = value
                run.append(row)
    if run:
        yield current, run
