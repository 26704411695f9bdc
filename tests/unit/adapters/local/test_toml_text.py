"""Configuration as TOML text, both ways."""

from __future__ import annotations

import math
import re
import tomllib
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.local.toml_text import checked, parsed, written
from sokovan.ports.config import ConfigValue, UnreadableConfig

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WHOLE = st.integers(-(2**63), 2**63 - 1)
REAL = st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | WHOLE | REAL | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.dictionaries(TEXTS, VALUES, max_size=6))
def test_what_is_written_reads_back_equal_and_of_the_same_kinds(values: dict[str, ConfigValue]) -> None:
    back = tomllib.loads(written(values))
    assert exact(back) == exact(values)
    assert exact(parsed(written(values).encode(), file="f")) == exact(values)


def exact(value: object) -> object:
    """The value with its kinds, for to Python 1, 1.0 and True are equal, and so are 0.0 and -0.0."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return type(value), value, math.copysign(1, value) if isinstance(value, float) else None


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused_with_the_file(content: bytes) -> None:
    assert refusal(content) is None or str(refusal(content)).startswith("some.toml")


def refusal(content: bytes) -> str | None:
    """The position of the error in an unreadable file."""
    try:
        parsed(content, file="some.toml")
    except UnreadableConfig as error:
        return error.path
    return None


def test_a_section_reads_as_a_person_would_write_it() -> None:
    group = {"scheduler": "drf", "known_slots": ["cpu", "mem"], "scheduler_opts": {"agent_selector": "dispersed"}}
    values: dict[str, ConfigValue] = {
        "note": "top",
        "scheduler": {"short_cycle_ms": 20},
        "scaling_groups": {"gpu.a100": group, "empty": {}},  # type: ignore[dict-item]  # a dict of dicts
    }
    assert written(values) == (
        'note = "top"\n'
        "\n[scheduler]\nshort_cycle_ms = 20\n"
        '\n[scaling_groups."gpu.a100"]\nscheduler = "drf"\nknown_slots = ["cpu", "mem"]\n'
        '\n[scaling_groups."gpu.a100".scheduler_opts]\nagent_selector = "dispersed"\n'
        "\n[scaling_groups.empty]\n"
    )


def test_an_empty_configuration_is_an_empty_text() -> None:
    assert written({}) == ""
    assert parsed(b"", file="f") == {}


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert parsed(b"\xef\xbb\xbfa = 1", file="f") == {"a": 1}


@pytest.mark.parametrize(
    ("content", "place", "problem"),
    [
        (b"a = 1\nb = [", "f.toml:2:6", "invalid value"),
        (b"[scheduler]\nshort_cycle_ms = \n", "f.toml:2:18", "invalid value"),
        (b"a = 1\na = 2\n", "f.toml:2:6", "cannot overwrite a value"),
        (b'a = "1\n', "f.toml:1:7", "illegal character"),
        (b'x = """\nhalf a te', "f.toml:2:10", "unterminated string"),
        (b"a = 1\nb = '\xff'", "f.toml:2:6", "not UTF-8"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_column(content: bytes, place: str, problem: str) -> None:
    with pytest.raises(UnreadableConfig, match=problem) as refused:
        parsed(content, file="f.toml")
    assert refused.value.path == place


def test_every_part_of_a_file_is_a_configuration_or_an_error_with_its_line() -> None:
    whole = b'[scheduler]\nshort_cycle_ms = 20\n\n[storage]\nurl = "sqlite:///x"\n'
    places = {refusal(whole[:length]) for length in range(len(whole))}
    assert None in places
    assert all(place is None or re.fullmatch(r"some\.toml:\d+:\d+", place) for place in places)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a]\nb = 1979-05-27", "a.b: a date is not supported; write it as a quoted string"),
        ("a = [1, 07:32:00]", "a[1]: a time is not supported"),
        ("a = inf", "a: inf is not a finite number"),
        ("a = {b = nan}", "a.b: nan is not a finite number"),
        ("a = 9223372036854775808", "a: 9223372036854775808 has more than 64 bits"),
        ("a = " + 33 * "[" + 33 * "]", "a: is nested more than 32 deep"),
        ("a = " + 9000 * "[" + 9000 * "]", "values are nested more than 32 deep"),
    ],
)
def test_what_json_could_not_hold_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnreadableConfig) as refused:
        parsed(text.encode(), file="f")
    assert refused.value.path == "f"
    assert problem in refused.value.problem


@pytest.mark.parametrize(
    "value", [None, math.nan, math.inf, 2**63, -(2**63) - 1, date(2026, 1, 1), b"x", "\ud800", {1: 2}, {"\udfff": 1}]
)
def test_what_toml_could_not_hold_is_not_written(value: Any) -> None:
    with pytest.raises(UnreadableConfig, match=r"^s\.x: "):
        written({"s": {"x": value}})
    with pytest.raises(UnreadableConfig):
        written({"s": [value]})


def test_a_value_nested_too_deep_is_not_written() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(UnreadableConfig, match="nested more than 32 deep"):
        written({"s": deep})


def test_tuples_and_mappings_become_lists_and_tables() -> None:
    assert checked(("a", 1), path="x") == ["a", 1]
