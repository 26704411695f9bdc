"""One TOML file and its drop-ins, as they lie on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.local import toml_files
from sokovan.adapters.local.toml_files import applied, merged, read_files, signature, value_at
from sokovan.domain.errors import InvalidName
from sokovan.ports.config import ConfigUnavailable, UnreadableConfig, section_and_entry


@pytest.fixture
def main(tmp_path: Path) -> Path:
    return tmp_path / "sokovan.toml"


@pytest.fixture
def drop_ins(tmp_path: Path) -> Path:
    (tmp_path / "conf.d").mkdir()
    return tmp_path / "conf.d"


def test_files_that_are_not_there_are_an_empty_configuration(main: Path) -> None:
    files = read_files(main, main.parent / "conf.d")
    assert (files.content, files.drop_ins, files.tree().values) == (None, (), {})


def test_drop_ins_come_after_the_main_file_in_the_order_of_their_names(main: Path, drop_ins: Path) -> None:
    main.write_text('[scheduler]\nshort_cycle_ms = 1\nlong_cycle_s = 1\nallocator = "main"\n')
    (drop_ins / "20-second.toml").write_text("[scheduler]\nshort_cycle_ms = 3\n")
    (drop_ins / "10-first.toml").write_text("[scheduler]\nshort_cycle_ms = 2\nlong_cycle_s = 2\n")
    (drop_ins / ".hidden.toml").write_text("[scheduler]\nshort_cycle_ms = 9\n")
    (drop_ins / "notes.txt").write_text("not TOML at all")
    assert read_files(main, drop_ins).tree().values == {
        "scheduler": {"short_cycle_ms": 3, "long_cycle_s": 2, "allocator": "main"}
    }


def test_a_mistake_in_a_drop_in_names_the_drop_in(main: Path, drop_ins: Path) -> None:
    (drop_ins / "a.toml").write_text("x = \n")
    with pytest.raises(UnreadableConfig, match=r"conf\.d/a\.toml:1:5: "):
        read_files(main, drop_ins).tree()


def test_the_revision_is_that_of_the_contents_alone(main: Path, drop_ins: Path) -> None:
    main.write_text("a = 1")
    first = read_files(main, drop_ins).revision
    main.write_text("a = 2")
    second = read_files(main, drop_ins).revision
    (drop_ins / "x.toml").write_text("b = 1")
    third = read_files(main, drop_ins).revision
    (drop_ins / "x.toml").rename(drop_ins / "y.toml")
    fourth = read_files(main, drop_ins).revision
    assert len({first, second, third, fourth}) == 4
    (drop_ins / "y.toml").unlink()
    main.write_text("a = 1")
    assert read_files(main, drop_ins).revision == first


def test_a_file_that_may_not_be_read_is_unavailable(main: Path) -> None:
    main.mkdir()
    with pytest.raises(ConfigUnavailable, match="Is a directory"):
        read_files(main, None)


def test_a_file_that_is_too_large_is_refused(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toml_files, "SIZE_MAX", 10)
    main.write_text("a = 1234567")
    with pytest.raises(UnreadableConfig, match="larger than 10 bytes"):
        read_files(main, None)


def test_the_signature_changes_with_every_kind_of_change(main: Path, drop_ins: Path) -> None:
    seen = [signature(main, drop_ins)]
    main.write_text("a = 1")
    seen.append(signature(main, drop_ins))
    main.write_text("a = 12")
    seen.append(signature(main, drop_ins))
    (drop_ins / "x.toml").touch()
    seen.append(signature(main, drop_ins))
    (drop_ins / "other").write_text("a = 13")
    (drop_ins / "other").replace(main)
    seen.append(signature(main, drop_ins))
    assert len(set(seen)) == len(seen)
    assert signature(main, drop_ins) == seen[-1]


@pytest.mark.parametrize(
    ("below", "above", "joined"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": {"x": {"p": 1}}}, {"a": {"x": {"q": 2}}}, {"a": {"x": {"p": 1, "q": 2}}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": 5}, {"a": 5}),
        ({"a": 5}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ],
)
def test_tables_are_joined_and_other_values_replaced(below: Any, above: Any, joined: Any) -> None:
    assert merged(below, above) == joined


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({}, {"a": {"x": 1}, "b": 2}),
        ({"a": {"y": 2}}, {"a": {"y": 2}, "b": 2}),
        ({"a": None}, {"b": 2}),
        ({"a.y": 2}, {"a": {"x": 1, "y": 2}, "b": 2}),
        ({"a.x": None}, {"b": 2}),
        ({"a.missing": None}, {"a": {"x": 1}, "b": 2}),
        ({"c.x": None}, {"a": {"x": 1}, "b": 2}),
        ({"c": None}, {"a": {"x": 1}, "b": 2}),
        ({"c.x": {"deep": True}}, {"a": {"x": 1}, "b": 2, "c": {"x": {"deep": True}}}),
        ({"c": {}}, {"a": {"x": 1}, "b": 2, "c": {}}),
        ({"a": {}, "a.z": 3}, {"a": {"z": 3}, "b": 2}),
        ({"a.gpu.a100": 1}, {"a": {"x": 1, "gpu.a100": 1}, "b": 2}),
    ],
)
def test_changes_set_and_remove_sections_and_entries(changes: Any, after: Any) -> None:
    before: Any = {"a": {"x": 1}, "b": 2}
    assert applied(before, changes) == after
    assert before == {"a": {"x": 1}, "b": 2}


def test_a_single_value_has_no_entries() -> None:
    with pytest.raises(UnreadableConfig, match="b: is a single value"):
        applied({"b": 2}, {"b.x": 1})


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a b", "a/b", "a.b c", "ä", "a." + "x" * 200])
def test_what_is_no_name_of_a_section_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="section of the configuration"):
        section_and_entry(name)


def test_an_entry_may_have_dots_and_slashes() -> None:
    assert section_and_entry("scaling_groups.gpu.a100/left") == ("scaling_groups", "gpu.a100/left")
    assert section_and_entry("storage") == ("storage", None)


def test_a_value_is_found_by_section_and_entry() -> None:
    values: Any = {"a": {"x": 1}, "b": 2}
    found = [value_at(values, *place) for place in [("a", None), ("a", "x"), ("a", "y"), ("b", "x"), ("c", None)]]
    assert found == [{"x": 1}, 1, None, None, None]


def test_the_drop_in_that_overrides_is_the_last_that_speaks_of_it(main: Path, drop_ins: Path) -> None:
    main.write_text("[a]\nx = 1\n")
    (drop_ins / "1.toml").write_text("[a]\nx = 2\n")
    (drop_ins / "2.toml").write_text("[a]\ny = 3\n")
    files = read_files(main, drop_ins)
    assert files.overriding("a", "x") == str(drop_ins / "1.toml")
    assert files.overriding("a", None) == str(drop_ins / "2.toml")
    assert files.overriding("c", None) == str(main)
