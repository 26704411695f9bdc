"""Binds many rows as one parameter, so that a step takes one statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
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
