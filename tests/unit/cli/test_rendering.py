"""Objects in the form that was asked for."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

import pytest
import yaml

from sokovan.cli.rendering import FORMATS, Column, Form, checked_form, show_all, show_more, show_one, widths_of
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


def printed(capsys: Out, form: Form, things: list[Thing]) -> str:
    """A list in a form."""
    show_all(things, COLUMNS, form, name=lambda thing: thing.name)
    return capsys.readouterr().out


def test_a_table_is_for_people(capsys: Out) -> None:
    assert printed(capsys, Form(), THINGS) == "NAME  SIZE\na     1\nb, c  22\n"
    assert printed(capsys, Form("wide"), THINGS).splitlines()[0] == "NAME  SIZE  TWICE"
    assert printed(capsys, Form("table", ("size", "name")), THINGS).splitlines()[2] == "22    b, c"


def test_json_yaml_lines_and_names_are_for_programs(capsys: Out) -> None:
    plain = [{"name": "a", "size": 1}, {"name": "b, c", "size": 22}]
    assert json.loads(printed(capsys, Form("json"), THINGS)) == plain
    assert yaml.safe_load(printed(capsys, Form("yaml"), THINGS)) == plain
    assert [json.loads(line) for line in printed(capsys, Form("jsonl"), THINGS).splitlines()] == plain
    assert printed(capsys, Form("name"), THINGS) == "a\nb, c\n"
    assert list(csv.reader(io.StringIO(printed(capsys, Form("csv"), THINGS)))) == [
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
    assert printed(capsys, Form(name), []) == text


@pytest.mark.parametrize("name", FORMATS)
def test_one_object_has_every_form_too(capsys: Out, name: str) -> None:
    show_one(THINGS[0], [("name", "a"), ("size", "1")], Form(name), name="a")
    out = capsys.readouterr().out
    assert {
        "json": '{\n  "name": "a",\n  "size": 1\n}\n',
        "jsonl": '{"name": "a", "size": 1}\n',
        "yaml": "name: a\nsize: 1\n",
        "name": "a\n",
        "csv": "name,size\na,1\n",
    }.get(name, "name  a\nsize  1\n") == out


def test_a_form_or_column_that_there_is_not_is_refused_with_those_there_are(capsys: Out) -> None:
    with pytest.raises(InvalidSetting, match="jsonl"):
        checked_form("xml", None)
    with pytest.raises(InvalidSetting, match="names no column"):
        checked_form("table", " , ")
    with pytest.raises(InvalidSetting, match="the columns are name, size, twice"):
        printed(capsys, checked_form("table", "Name,colour"), THINGS)


def test_columns_are_of_tables_and_csv(capsys: Out) -> None:
    for name in ("json", "jsonl", "yaml", "name"):
        with pytest.raises(InvalidSetting, match=f"the format is {name}"):
            checked_form(name, "size")
    assert printed(capsys, checked_form("csv", "size"), THINGS).splitlines()[0] == "size"


def test_one_object_has_only_the_facts_that_were_asked_for(capsys: Out) -> None:
    facts = [("name", "a"), ("exit code", "1")]
    show_one(THINGS[0], facts, Form("table", ("exit code",)), name="a")
    show_one(THINGS[0], facts, Form("csv", ("exit code", "name")), name="a")
    assert capsys.readouterr().out == "exit code  1\nexit code,name\n1,a\n"
    with pytest.raises(InvalidSetting, match="a has no 'colour'"):
        show_one(THINGS[0], facts, Form("table", ("colour",)), name="a")


def test_what_others_wrote_cannot_leave_its_line(capsys: Out) -> None:
    assert printed(capsys, Form(), [Thing("a\n\x1b[31mb", 1)]).splitlines()[1] == "a \ufffd[31mb  1"


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (Form(), "a\ufffd    1"),
        (Form("wide"), "a\ufffd    1     2"),
        (Form("table", ("size", "name")), "1     a\ufffd"),
        (Form("csv", ("size",)), "1"),
        (Form("jsonl"), '{"name": "a\\u0001", "size": 1}'),
        (Form("name"), "a\x01"),
        (Form("yaml"), '- name: "a\\x01"\n  size: 1'),
    ],
)
def test_a_list_grows_in_the_form_in_which_it_began(capsys: Out, form: Form, line: str) -> None:
    begun = widths_of([Thing("abc", 1)], COLUMNS)
    show_more(Thing("a\x01", 1), COLUMNS, form, name=lambda thing: thing.name, begun=begun)
    assert capsys.readouterr().out == f"{line}\n"
