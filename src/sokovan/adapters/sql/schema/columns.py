"""Column types with the same behaviour on both databases."""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

# Names compare byte by byte on both databases, so that they sort as in Python.
Name = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
Amount = sa.BigInteger()
# SQLite generates row numbers only in a column of exactly this type.
Identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def status_check(column: str, kinds: type[StrEnum]) -> sa.CheckConstraint:
    """A CHECK that allows only the values of an enumeration, or NULL if nullable."""
    return sa.CheckConstraint(f"{column} IN ({quoted_values(kinds)})", name=column)


def quoted_values(kinds: type[StrEnum]) -> str:
    """The values of an enumeration as an SQL list."""
    return ", ".join(f"'{kind.value}'" for kind in kinds)


def server_time() -> sa.ColumnElement[int]:
    """PostgreSQL's current time in milliseconds, not that of the transaction's begin."""
    return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()) * 1000, sa.BigInteger)
