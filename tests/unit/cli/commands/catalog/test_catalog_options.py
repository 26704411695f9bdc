"""Options of `set`: omitted, given, empty."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.cli.commands.catalog.catalog_nouns import CATALOG
from sokovan.cli.commands.catalog.catalog_options import (
    CatalogOption,
    changed_field,
    read_amounts,
    read_scheduler_options,
    read_size,
    read_slot_weights,
    read_whole,
)
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.fleet import QueueBody
from sokovan.wire.api.tenancy import PolicyBody, UserBody

QUOTA = PolicyBody(name="q", slots_max={"cuda.device": "8", "cpu": "4"}, sessions_max=3)
AMOUNTS = CatalogOption("amounts", "", "slots_max", positional=True, read=read_amounts)


def change(option: CatalogOption, given: Any, body: Any) -> Any:
    return changed_field(body, option.field, option.value(given))


def test_an_omitted_option_has_no_value() -> None:
    assert {option.value(()) for row in CATALOG.values() for option in row.options} == {None}


def test_amounts_are_merged_into_the_stored_ones() -> None:
    assert change(AMOUNTS, ("gpu=16", "mem=1GiB"), QUOTA) == {"cpu": "4", "cuda.device": "16", "mem": "1GiB"}


def test_an_empty_amount_removes_one_and_an_empty_text_removes_all() -> None:
    assert change(AMOUNTS, ("gpu=",), QUOTA) == {"cpu": "4"}
    assert change(AMOUNTS, ("",), QUOTA) == {}
    assert change(AMOUNTS, ("", "gpu=1"), QUOTA) == {"cuda.device": "1"}


def test_amounts_are_merged_into_none() -> None:
    option = CatalogOption("max", "", "capability", repeatable=True, read=read_amounts)
    assert change(option, ("gpu=1", "cpu="), QueueBody(name="a")) == {"cuda.device": "1"}


def test_an_empty_text_restores_the_default() -> None:
    assert change(CatalogOption("sessions", "", "sessions_max", read=read_whole), "", QUOTA) is None
    assert change(CatalogOption("weight", "", "weight", read=read_whole), "", QueueBody(name="a", weight=5)) == 1
    user = UserBody(name="ada", domain="d", groups=["nlp"])
    assert change(CatalogOption("group", "", "groups", repeatable=True), ("",), user) == []


def test_a_name_that_is_needed_cannot_be_empty() -> None:
    with pytest.raises(InvalidSetting, match="--domain is empty"):
        CatalogOption("domain", "", "domain", clearable=False).value("")


def test_scheduler_options_are_json_or_text() -> None:
    given = ("a=1", "b=[1]", "c=text", "d=NaN", "e=")
    assert read_scheduler_options(given, "--option") == {"a": 1, "b": [1], "c": "text", "d": "NaN", "e": ""}


def test_amounts_are_read_by_slot() -> None:
    assert read_amounts(("gpu=8", "mem=4GiB"), "--max") == {"cuda.device": "8", "mem": "4GiB"}
    with pytest.raises(InvalidSetting, match="--max 'gpu'"):
        read_amounts(("gpu",), "--max")
    with pytest.raises(InvalidSetting, match="a slot twice"):
        read_amounts(("gpu=8", "cuda.device=4"), "--max")


@pytest.mark.parametrize("text", ["heavy", "1.5", "1e3", "٣", "--1", "9" * 41])
def test_what_is_not_a_whole_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="is not a whole number"):
        read_whole(text, "--weight")
    with pytest.raises(InvalidSetting, match="--slot-weight gpu"):
        read_slot_weights((f"gpu={text}",), "--slot-weight")


def test_a_size_is_read_in_bytes_or_with_its_unit() -> None:
    assert [read_size(text, "--disk") for text in ("0", "1048576", "20GiB", "1TiB")] == [0, 1 << 20, 20 << 30, 1 << 40]
    for text in ("", "GiB", "20GB", "-1", "1.5GiB", "9" * 50):
        with pytest.raises(InvalidSetting, match="is not a size"):
            read_size(text, "--disk")
