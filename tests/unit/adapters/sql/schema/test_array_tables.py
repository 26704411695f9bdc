"""The tables of job arrays."""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.schema.array_tables import array_tables


def test_dependencies_refer_to_sessions_and_arrays() -> None:
    arrays, dependencies = array_tables(sa.MetaData())
    targets = {key.target_fullname for key in dependencies.foreign_keys}
    assert targets == {"sessions.session_id", "session_arrays.array_id"}
    assert [column.name for column in arrays.primary_key] == ["array_id"]
    assert arrays.c.at_once.nullable
