"""Data on standard output, status on standard error."""

from __future__ import annotations

import json

import pytest

from sokovan.cli.output import as_json, plain_cell, print_data, print_error, print_status, table
from sokovan.domain.errors import InvalidName


def test_a_line_break_in_a_cell_is_a_space() -> None:
    assert plain_cell("one\n  two\r\nthree\x1b") == "one two three\ufffd"


def test_data_goes_to_standard_output_and_status_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_data("data")
    print_status("words")
    assert capsys.readouterr() == ("data\n", "words\n")


def test_json_keeps_the_order_of_its_keys_and_its_letters() -> None:
    assert as_json({"b": 1, "a": "é"}) == '{\n  "b": 1,\n  "a": "é"\n}'
    assert as_json([]) == "[]"


def test_an_error_is_printed_with_hint_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(InvalidName(what="agent", name="a b"), as_object=False)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: 'a b' is not a name for an agent\n  hint: use 1 to 128 letters")
    assert err.endswith("[invalid-name]\n")


def test_an_error_is_printed_as_one_json_object_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(InvalidName(what="agent", name="a b"), as_object=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert set(json.loads(err)) == {"code", "message", "hint"}
    assert json.loads(err)["code"] == "invalid-name"


def test_the_columns_of_a_table_line_up_and_lines_end_without_blanks() -> None:
    rows = [("ok", "12", "a name with blanks"), ("FAIL", "1", "")]
    assert table(("RESULT", "N", "NAME"), rows).splitlines() == [
        "RESULT  N   NAME",
        "ok      12  a name with blanks",
        "FAIL    1",
    ]


def test_a_table_without_rows_is_its_headings() -> None:
    assert table(("A", "B"), []) == "A  B"
