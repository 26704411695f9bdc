"""The table of catalogue nouns."""

from __future__ import annotations

import pytest

from sokovan.cli.command_table import CATALOG_NOUNS
from sokovan.cli.commands.catalog.catalog_nouns import CATALOG, amounts_text, read_amounts
from sokovan.sdk.errors import InvalidSetting


def test_every_noun_of_the_command_table_has_a_row() -> None:
    assert tuple(CATALOG) == CATALOG_NOUNS


def test_every_option_sets_a_field_of_the_wire_type() -> None:
    options = [(row, option) for row in CATALOG.values() for option in (*row.selectors, *row.options)]
    assert [option.name for row, option in options if option.field not in row.body.__dataclass_fields__] == []


def test_an_omitted_option_has_no_value() -> None:
    assert {option.value(()) for row in CATALOG.values() for option in row.options} == {None}


def test_amounts_are_read_by_slot() -> None:
    assert read_amounts(("gpu=8", "mem=4GiB"), "--max") == {"cuda.device": "8", "mem": "4GiB"}
    with pytest.raises(InvalidSetting, match="--max 'gpu'"):
        read_amounts(("gpu",), "--max")


def test_amounts_are_printed_by_slot() -> None:
    assert (amounts_text(None), amounts_text({"b": 2, "a": 1})) == ("-", "a=1 b=2")
