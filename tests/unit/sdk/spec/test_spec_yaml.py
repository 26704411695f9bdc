"""The YAML of spec files; errors show the line."""

from __future__ import annotations

import pytest

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec.spec_yaml import LIMITS, described, read_nodes, spec_error
from sokovan.yaml_reader import Position


def test_several_documents_are_read_and_empty_ones_skipped() -> None:
    assert len(read_nodes("a: 1\n---\n---\nb: 2\n", "f")) == 2
    assert read_nodes("# nothing\n", "f") == []


def test_an_error_shows_file_line_column_and_the_line_itself() -> None:
    with pytest.raises(InvalidSpecFile) as raised:
        read_nodes("a: 1\nb: {x\n", "f.yaml")
    assert raised.value.message.startswith("f.yaml:3:1: this is not YAML:")
    error = spec_error(Position("f.yaml", 2, 4, "b: {x"), "is odd")
    assert error.message == "f.yaml:2:4: is odd\n  | b: {x\n  |    ^"


def test_a_long_line_is_cut() -> None:
    assert len(spec_error(Position("f", 1, 1, "x" * 10_000), "is odd").message) < 400


@pytest.mark.parametrize(
    ("text", "shown"), [("{a: 1}", "a mapping"), ("[1]", "a list"), ("[~]", "null"), ("[abc]", "'abc'")]
)
def test_a_value_is_described_for_an_error(text: str, shown: str) -> None:
    [node] = read_nodes(text, "f")
    assert described(node.items[0] if shown in {"null", "'abc'"} else node) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n",
        "? [a]\n: 1\n",
        "a: &x [*x]\n",
        "a: *unknown\n",
        "\t- x",
        "a: \x00",
        "%YAML 9.9\n---\na: 1\n---\n%bad",
        "x" * (LIMITS.text_max + 1),
        "[" * (LIMITS.depth_max + 1),
        f"a: &a [{','.join('x' * 200)}]\nb: [{','.join(['*a'] * (LIMITS.nodes_max // 200 + 1))}]\n",
    ],
)
def test_an_invalid_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpecFile, match=r"^f\.yaml:\d+:\d+: "):
        read_nodes(text, "f.yaml")
