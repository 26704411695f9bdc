"""Output formats."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

import pytest
import yaml

from sokovan.cli.rendering import (
    FORMATS,
    Column,
    OutputFormat,
    parse_output_format,
    show_all,
    show_next,
    show_one,
    widths_of,
)
from sokovan.sdk.errors import InvalidSetting


@dataclass(frozen=True)
class Thing:
    """Something to print."""

    name: str
    size: int


THINGS = [Thing("a", 1), Thing("b, c", 22)]
COLUMNS: list[Column[Thing]] = [
    Column("name", lambda thing: thing.name),
    Column("size", lambda thing: str(thing.size)),
    Column("twice", lambda thing: str(thing.size * 2), wide=True),
]
Out = pytest.CaptureFixture[str]


def printed(capsys: Out, form: OutputFormat, things: list[Thing]) -> str:
    """A list in an output format."""
    show_all(things, COLUMNS, form, name=lambda thing: thing.name)
    return capsys.readouterr().out


def test_tables(capsys: Out) -> None:
    assert printed(capsys, OutputFormat(), THINGS) == "NAME  SIZE\na     1\nb, c  22\n"
    assert printed(capsys, OutputFormat("wide"), THINGS).splitlines()[0] == "NAME  SIZE  TWICE"
    assert printed(capsys, OutputFormat("table", ("size", "name")), THINGS).splitlines()[2] == "22    b, c"


def test_json_yaml_lines_and_names(capsys: Out) -> None:
    plain = [{"name": "a", "size": 1}, {"name": "b, c", "size": 22}]
    assert json.loads(printed(capsys, OutputFormat("json"), THINGS)) == plain
    assert yaml.safe_load(printed(capsys, OutputFormat("yaml"), THINGS)) == plain
    assert [json.loads(line) for line in printed(capsys, OutputFormat("jsonl"), THINGS).splitlines()] == plain
    assert printed(capsys, OutputFormat("name"), THINGS) == "a\nb, c\n"
    assert list(csv.reader(io.StringIO(printed(capsys, OutputFormat("csv"), THINGS)))) == [
        ["name", "size", "twice"],
        ["a", "1", "2"],
        ["b, c", "22", "44"],
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json", "[]\n"),
        ("yaml", "[]\n"),
        ("jsonl", ""),
        ("name", ""),
        ("csv", "name,size,twice\n"),
        ("table", "NAME  SIZE\n"),
    ],
)
def test_an_empty_list_is_an_empty_list(capsys: Out, name: str, text: str) -> None:
    assert printed(capsys, OutputFormat(name), []) == text


@pytest.mark.parametrize("name", FORMATS)
def test_one_object_has_every_format_too(capsys: Out, name: str) -> None:
    show_one(THINGS[0], [("name", "a"), ("size", "1")], OutputFormat(name), name="a")
    out = capsys.readouterr().out
    assert {
        "json": '{\n  "name": "a",\n  "size": 1\n}\n',
        "jsonl": '{"name": "a", "size": 1}\n',
        "yaml": "name: a\nsize: 1\n",
        "name": "a\n",
        "csv": "name,size\na,1\n",
    }.get(name, "name  a\nsize  1\n") == out


def test_an_unknown_format_or_column_is_refused(capsys: Out) -> None:
    with pytest.raises(InvalidSetting, match="jsonl"):
        parse_output_format("xml", None)
    with pytest.raises(InvalidSetting, match="--columns is empty"):
        parse_output_format("table", " , ")
    with pytest.raises(InvalidSetting, match="the columns are name, size, twice"):
        printed(capsys, parse_output_format("table", "Name,colour"), THINGS)


def test_columns_apply_to_tables_and_csv(capsys: Out) -> None:
    for name in ("json", "jsonl", "yaml", "name"):
        with pytest.raises(InvalidSetting, match=f"not to {name}"):
            parse_output_format(name, "size")
    assert printed(capsys, parse_output_format("csv", "size"), THINGS).splitlines()[0] == "size"


def test_columns_select_the_fields_of_one_object(capsys: Out) -> None:
    facts = [("name", "a"), ("exit code", "1")]
    show_one(THINGS[0], facts, OutputFormat("table", ("exit code",)), name="a")
    show_one(THINGS[0], facts, OutputFormat("csv", ("exit code", "name")), name="a")
    assert capsys.readouterr().out == "exit code  1\nexit code,name\n1,a\n"
    with pytest.raises(InvalidSetting, match="a has no field 'colour'"):
        show_one(THINGS[0], facts, OutputFormat("table", ("colour",)), name="a")


def test_unprintable_characters_stay_on_their_line(capsys: Out) -> None:
    assert printed(capsys, OutputFormat(), [Thing("a\n\x1b[31mb", 1)]).splitlines()[1] == "a \ufffd[31mb  1"


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (OutputFormat(), "a\ufffd    1"),
        (OutputFormat("wide"), "a\ufffd    1     2"),
        (OutputFormat("table", ("size", "name")), "1     a\ufffd"),
        (OutputFormat("csv", ("size",)), "1"),
        (OutputFormat("jsonl"), '{"name": "a\\u0001", "size": 1}'),
        (OutputFormat("name"), "a\x01"),
        (OutputFormat("yaml"), '- name: "a\\x01"\n  size: 1'),
    ],
)
def test_a_watched_list_keeps_its_format(capsys: Out, form: OutputFormat, line: str) -> None:
    widths = widths_of([Thing("abc", 1)], COLUMNS)
    show_next(Thing("a\x01", 1), COLUMNS, form, name=lambda thing: thing.name, widths=widths)
    assert capsys.readouterr().out == f"{line}\n"
