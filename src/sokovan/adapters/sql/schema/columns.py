"""Kinds of columns, alike on both databases."""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

# Names compare byte by byte on both databases, so that they sort alike everywhere, and as Python sorts them.
Name = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
Amount = sa.BigInteger()
# SQLite numbers rows by itself only in a column of exactly this type.
Identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def status_check(column: str, kinds: type[StrEnum]) -> sa.CheckConstraint:
    """Only the words of an enumeration, or nothing where the column may be empty."""
    return sa.CheckConstraint(f"{column} IN ({quoted_words(kinds)})", name=column)


def quoted_words(kinds: type[StrEnum]) -> str:
    """The words of an enumeration as SQL lists them."""
    return ", ".join(f"'{kind.value}'" for kind in kinds)


def server_time() -> sa.ColumnElement[int]:
    """PostgreSQL's time in milliseconds: now, not when its transaction began."""
    return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()) * 1000, sa.BigInteger)
