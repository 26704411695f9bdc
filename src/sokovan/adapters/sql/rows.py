"""Binds many rows as one parameter, and reads many as one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.types import TypeEngine

TEXT = sa.Text()
WHOLE = sa.BigInteger()
FLAG = sa.Boolean()


class Rows:
    """A table of bound values inside one statement, passed as one JSON text.

    Statements are built once with `.table` and run many times with `bind(rows)`. One
    array per column took 50 % longer on PostgreSQL, mostly in the driver (record 42).
    """

    def __init__(self, name: str, columns: Mapping[str, TypeEngine[Any]], *, postgresql: bool) -> None:
        self._name = name
        text = sa.bindparam(name, type_=TEXT)
        picked = _from_jsonb(text, columns) if postgresql else _from_json(text, columns)
        self.table: FromClause = picked.subquery(name)

    @property
    def c(self) -> Any:
        """The columns."""
        return self.table.c

    def bind(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """The parameter for these rows; values are in the order of the columns."""
        return {self._name: msgspec.json.encode(list(rows)).decode()}


def _from_jsonb(text: sa.BindParameter[str], columns: Mapping[str, TypeEngine[Any]]) -> sa.Select[Any]:
    each = sa.func.jsonb_array_elements(sa.cast(text, JSONB)).table_valued("value", name="each_row")
    value = sa.type_coerce(each.c.value, JSONB)
    return sa.select(
        *[sa.cast(value[index].astext, kind).label(name) for index, (name, kind) in enumerate(columns.items())]
    )


def _from_json(text: sa.BindParameter[str], columns: Mapping[str, TypeEngine[Any]]) -> sa.Select[Any]:
    each = sa.func.json_each(text).table_valued("value", name="each_row")
    return sa.select(
        *[
            sa.type_coerce(sa.func.json_extract(each.c.value, f"$[{index}]"), kind).label(name)
            for index, (name, kind) in enumerate(columns.items())
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
