"""The table of catalogue nouns."""

from __future__ import annotations

from sokovan.cli.command_table import CATALOG_NOUNS
from sokovan.cli.commands.catalog.catalog_nouns import CATALOG, amounts_text


def test_every_noun_of_the_command_table_has_a_row() -> None:
    assert tuple(CATALOG) == CATALOG_NOUNS


def test_every_option_sets_a_field_of_the_wire_type() -> None:
    options = [(row, option) for row in CATALOG.values() for option in (*row.selectors, *row.options)]
    assert [option.name for row, option in options if option.field not in row.body.__dataclass_fields__] == []


def test_amounts_are_printed_by_slot() -> None:
    assert (amounts_text(None), amounts_text({"b": 2, "a": 1})) == ("-", "a=1 b=2")
