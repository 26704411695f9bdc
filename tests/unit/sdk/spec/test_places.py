"""YAML that knows where it stands."""

from __future__ import annotations

import pytest

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec.places import DEPTH_MAX, NODES_MAX, TEXT_MAX, Node, Place, read_documents


def only(text: str) -> Node:
    """The one document of a text."""
    [node] = read_documents(text, "f.yaml")
    return node


def test_every_value_knows_its_line_and_column() -> None:
    node = only("a: 1\nb:\n  - x\n  - y: [true, ~]\n")
    inner = node.entries["b"].items[1].entries["y"]
    assert (inner.place.line, inner.place.column) == (4, 8)
    assert inner.key_place == Place("f.yaml", 4, 5, "  - y: [true, ~]")
    assert [item.kind for item in inner.items] == ["flag", "nothing"]


def test_times_and_texts_are_texts_and_numbers_are_numbers() -> None:
    node = only("a: 2030-01-01T00:00:00Z\nb: x\nc: 1\nd: 1.5\ne: !!binary aa==\n")
    assert [value.kind for value in node.entries.values()] == ["text", "text", "number", "fraction", "other"]
    assert node.entries["a"].text == "2030-01-01T00:00:00Z"


def test_several_documents_and_empty_ones_are_read() -> None:
    assert len(read_documents("a: 1\n---\n---\nb: 2\n", "f")) == 2
    assert read_documents("# nothing\n", "f") == []


def test_an_error_shows_file_line_column_and_the_line_itself() -> None:
    with pytest.raises(InvalidSpecFile) as raised:
        only("a: 1\nb: {x\n")
    assert raised.value.message.startswith("f.yaml:3:1: this is not YAML:")
    place = Place("f.yaml", 2, 4, "b: {x")
    assert place.wrong("is odd").message == "f.yaml:2:4: is odd\n  | b: {x\n  |    ^"


def test_a_line_without_end_is_cut() -> None:
    assert len(Place("f", 1, 1, "x" * 10_000).wrong("is odd").message) < 400


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n",
        "? [a]\n: 1\n",
        "a: &x [*x]\n",
        "a: *nobody\n",
        "\t- x",
        "a: \x00",
        "%YAML 9.9\n---\na: 1\n---\n%bad",
        "x" * (TEXT_MAX + 1),
        "[" * (DEPTH_MAX + 1),
        f"a: &a [{','.join('x' * 200)}]\nb: [{','.join(['*a'] * (NODES_MAX // 200 + 1))}]\n",
    ],
)
def test_what_cannot_be_taken_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpecFile, match=r"^f\.yaml:\d+:\d+: "):
        read_documents(text, "f.yaml")
