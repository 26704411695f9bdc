"""Helpers of migrations agree with those of the tables."""

from __future__ import annotations

from sokovan.adapters.sql.schema.columns import quoted_values
from sokovan.adapters.sql.schema.migration_forms import IDENTITY, NAME, words
from sokovan.adapters.sql.schema.tables import COMMITS, SESSIONS
from sokovan.domain.lifecycle.session import SessionStatus


def test_values_are_listed_as_in_the_tables() -> None:
    assert words(*SessionStatus) == quoted_values(SessionStatus)


def test_names_and_numbers_have_the_same_kind_on_both_databases() -> None:
    assert repr(NAME) == repr(SESSIONS.c.session_id.type)
    assert repr(IDENTITY) == repr(COMMITS.c.sequence.type)
