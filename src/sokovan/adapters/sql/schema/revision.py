"""The revision of the schema, read without the machinery of migrations.

A start on a current database so avoids loading that machinery, which takes longer than
anything else that a start does with the database.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_MIGRATIONS = Path(__file__).parent.parent / "migrations"
_FOUND = sa.text("SELECT version_num FROM alembic_version")


def newest_revision() -> str:
    """The revision of the last migration, which the name of its file begins with."""
    return max(path.name[1:5] for path in _MIGRATIONS.glob("v[0-9][0-9][0-9][0-9]_*.py"))


def is_newest(connection: Connection) -> bool:
    """Whether the database is at the newest revision."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return False
    return list(connection.execute(_FOUND).scalars()) == [newest_revision()]
