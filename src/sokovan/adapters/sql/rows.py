"""Many rows as one parameter, so that a step costs one statement however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.types import TypeEngine

TEXT = sa.Text()
WHOLE = sa.BigInteger()
FLAG = sa.Boolean()


class Rows:
    """A table that exists for one statement: columns by name, rows bound as parameters.

    PostgreSQL takes one array per column, SQLite one JSON text. Statements are
    built once with `.table` and run many times with `bind(rows)`.
    """

    def __init__(self, name: str, columns: Mapping[str, TypeEngine[Any]], *, postgresql: bool) -> None:
        self._name, self._columns, self._postgresql = name, dict(columns), postgresql
        self.table: FromClause = self._arrays() if postgresql else self._json()

    @property
    def c(self) -> Any:
        """The columns."""
        return self.table.c

    def bind(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """The parameters for these rows; each has its values in the order of the columns."""
        if self._postgresql:
            columns = list(zip(*rows, strict=True)) or [() for _ in self._columns]
            return {self._key(index): list(values) for index, values in enumerate(columns)}
        return {self._name: msgspec.json.encode(list(rows)).decode()}

    def _key(self, index: int) -> str:
        return f"{self._name}_{index}"

    def _arrays(self) -> FromClause:
        arrays = [
            sa.bindparam(self._key(index), type_=ARRAY(kind)) for index, kind in enumerate(self._columns.values())
        ]
        # A plain text array would compare with the database's collation; the columns it meets say which they use.
        return (
            sa.func.unnest(*arrays)
            .table_valued(*[sa.column(name, kind) for name, kind in self._columns.items()], name=self._name)
            .render_derived()
        )

    def _json(self) -> FromClause:
        each = sa.func.json_each(sa.bindparam(self._name, type_=TEXT)).table_valued("value", name=f"{self._name}_each")
        picked = [
            sa.type_coerce(sa.func.json_extract(each.c.value, f"$[{index}]"), kind).label(name)
            for index, (name, kind) in enumerate(self._columns.items())
        ]
        return sa.select(*picked).subquery(self._name)
