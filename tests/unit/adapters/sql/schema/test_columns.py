"""Kinds of columns."""

from enum import StrEnum

import sqlalchemy as sa

from sokovan.adapters.sql.schema.columns import Identity, Name, quoted_values, status_check
from tests.unit.adapters.sql.dialects import POSTGRESQL, SQLITE


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def test_names_compare_byte_by_byte_on_both_databases() -> None:
    assert Name.compile(dialect=POSTGRESQL) == 'TEXT COLLATE "C"'
    assert Name.compile(dialect=SQLITE) == "TEXT"


def test_a_running_number_is_of_the_type_that_each_database_counts_up() -> None:
    assert Identity.compile(dialect=POSTGRESQL) == "BIGINT"
    assert Identity.compile(dialect=SQLITE) == "INTEGER"


def test_a_check_lists_the_values_of_an_enumeration() -> None:
    assert quoted_values(Colour) == "'red', 'blue'"
    check = status_check("colour", Colour)
    assert str(check.sqltext) == "colour IN ('red', 'blue')"
    assert isinstance(check, sa.CheckConstraint)
    assert check.name == "colour"
