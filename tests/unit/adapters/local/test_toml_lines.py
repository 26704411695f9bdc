"""Lines of keys in a TOML text."""

from __future__ import annotations

import pytest

from sokovan.adapters.local.toml_lines import key_lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", {}),
        ("# only a remark\n", {}),
        ("a = 1\n\nb = 2\n", {"a": 1, "b": 3}),
        ("[t]\r\na = 1\r\n", {"t": 1, "t.a": 2}),
        ("[t.u]\na = 1\n[t]\nb = 2\n", {"t": 1, "t.u": 1, "t.u.a": 2, "t.b": 4}),
        ("a.b = 1\n", {"a": 1, "a.b": 1}),
        ("a = [\n  1,\n  2,\n]\nb = 1\n", {"a": 1, "b": 5}),
        ('a = """\n[no]\nx = 1\n"""\nb = 1\n', {"a": 1, "b": 5}),
        ("a = {b = 1, c = {d = 2}}\n", {"a": 1, "a.b": 1, "a.c": 1, "a.c.d": 1}),
        ('[g."a.b"]\nx = 1\n', {"g": 1, 'g."a.b"': 1, 'g."a.b".x': 2}),
        ("[[list]]\nx = 1\n", {"list": 1, "list.x": 2}),
        ("a = {b = [\n  1\n]}\nc = 1\n", {"a": 1, "a.b": 1, "c": 4}),
        ("a = [\n  [1],\n  [2],\n]  # remark\nb = 1\n", {"a": 1, "b": 5}),
        ("a = '''\nx\n'''\nb = 1\n", {"a": 1, "b": 4}),
        ("  a = 1  # remark\n  # more\n", {"a": 1}),
    ],
)
def test_every_key_has_the_line_where_it_begins(text: str, lines: dict[str, int]) -> None:
    assert key_lines(text) == lines


def test_after_a_value_of_very_many_lines_no_line_is_known() -> None:
    assert key_lines("c = 1\na = [\n" + "1,\n" * 1500 + "]\nb = 1\n") == {"c": 1}
