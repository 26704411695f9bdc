"""Binds many rows as one parameter, and reads many as one value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter, itemgetter, ne
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.types import TypeEngine

TEXT = sa.Text()
WHOLE = sa.BigInteger()
FLAG = sa.Boolean()
# Rows from which on it pays to look for columns that all of them have in common.
MANY = 64


class Rows:
    """A table of bound values inside one statement, passed as one JSON text.

    Statements are built once with `.table` and run many times with `bind(rows)`. One
    array per column took 50 % longer on PostgreSQL, mostly in the driver (record 42).
    The columns in `common`, which all rows have the same value of, are bound once (SQLite only).
    """

    def __init__(
        self, name: str, columns: Mapping[str, TypeEngine[Any]], *, postgresql: bool, common: Collection[str] = ()
    ) -> None:
        self._name = name
        text = sa.bindparam(name, type_=TEXT)
        places = {column: place for place, column in enumerate(columns)}
        self._common = {f"{name}_{column}": places[column] for column in columns if column in common}
        self._varying = [place for column, place in places.items() if column not in common]
        picked = _from_jsonb(text, columns) if postgresql else _from_json(text, columns, name, common)
        self.table: FromClause = picked.subquery(name)

    @property
    def c(self) -> Any:
        """The columns."""
        return self.table.c

    def bind(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """The parameter for these rows; values are in the order of the columns."""
        given = list(rows)
        if not self._common:
            return {self._name: msgspec.json.encode(given).decode()}
        varying = list(map(itemgetter(*self._varying), given))
        bound: dict[str, Any] = {name: given[0][place] for name, place in self._common.items()}
        return {**bound, self._name: msgspec.json.encode(varying).decode()}


class OccasionalColumns:
    """The last columns of rows, written only if a row gets another value in them.

    SQLite writes all indexes of a column that it is given, even if its value stays.
    """

    def __init__(self, names: Iterable[str], *, first: int) -> None:
        self._names = tuple(names)
        self._first = first
        self._stored = attrgetter(*self._names)

    def changed(self, rows: Iterable[tuple[Any, Sequence[Any]]]) -> tuple[str, ...]:
        """The columns in which the values of a row differ from those of its stored row."""
        changed: set[str] = set()
        for stored, values in rows:
            before, after = self._stored(stored), tuple(values[self._first :])
            if before != after:
                changed.update(compress(self._names, map(ne, before, after)))
        return tuple(name for name in self._names if name in changed)

    def chosen(self, rows: Iterable[Sequence[Any]], names: Collection[str]) -> list[tuple[Any, ...]]:
        """The rows without those of these columns that are not in `names`."""
        places = [place for place, name in enumerate(self._names, self._first) if name in names]
        return list(map(itemgetter(*range(self._first), *places), rows))


def common_columns(rows: Sequence[Sequence[Any]], names: Iterable[str], *, postgresql: bool) -> frozenset[str]:
    """The columns of which all rows have the same value; none if there are few rows.

    Reading a column of a row from its text takes SQLite longer than writing it. The first column,
    a key, is never one.
    """
    if postgresql or len(rows) < MANY:
        return frozenset()
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return frozenset(name for place, (name, values) in enumerate(columns) if place and _are_equal(values))


def changed_places(before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]]) -> list[int]:
    """The places at which a row differs from the same row before."""
    columns = zip(zip(*before, strict=True), zip(*after, strict=True), strict=True)
    return [place for place, (old, new) in enumerate(columns) if old != new]


def _are_equal(values: Sequence[Any]) -> bool:
    return values.count(values[0]) == len(values)


def _from_jsonb(text: sa.BindParameter[str], columns: Mapping[str, TypeEngine[Any]]) -> sa.Select[Any]:
    each = sa.func.jsonb_array_elements(sa.cast(text, JSONB)).table_valued("value", name="each_row")
    value = sa.type_coerce(each.c.value, JSONB)
    return sa.select(
        *[sa.cast(value[index].astext, kind).label(name) for index, (name, kind) in enumerate(columns.items())]
    )


def _from_json(
    text: sa.BindParameter[str], columns: Mapping[str, TypeEngine[Any]], name: str, common: Collection[str]
) -> sa.Select[Any]:
    each = sa.func.json_each(text).table_valued("value", name="each_row")
    varying = [column for column in columns if column not in common]
    picked: dict[str, sa.ColumnElement[Any]] = {
        column: sa.func.json_extract(each.c.value, f"$[{place}]") for place, column in enumerate(varying)
    }
    if len(varying) == 1 and common:
        picked = {varying[0]: each.c.value}
    bound = {column: sa.bindparam(f"{name}_{column}", type_=columns[column]) for column in columns if column in common}
    return sa.select(
        *[
            bound[column].label(column) if column in bound else sa.type_coerce(picked[column], kind).label(column)
            for column, kind in columns.items()
        ]
    )


def packed_rows(
    columns: Sequence[sa.Column[Any]],
    *where: sa.ColumnElement[bool],
    key: sa.Column[Any],
    order: sa.Column[Any],
    postgresql: bool,
) -> sa.Select[Any]:
    """Selects the rows of each key as one JSON text, `packed`, in their order.

    SQLite returns rows one by one, and other threads may run in between for each of them:
    thousands of rows took much longer than their text, which comes in one step.
    """
    if postgresql:
        each: Any = sa.func.json_build_array(*columns)
        listed = sa.cast(sa.func.json_agg(aggregate_order_by(each, order)), TEXT)
        return sa.select(key, listed.label("packed")).where(*where).group_by(key)
    chosen = sa.select(key, *[one for one in columns if one is not key]).where(*where).order_by(key, order).subquery()
    text = sa.func.json_group_array(sa.func.json_array(*[chosen.c[one.name] for one in columns]), type_=TEXT)
    return sa.select(chosen.c[key.name], text.label("packed")).group_by(chosen.c[key.name])
