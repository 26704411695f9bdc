"""YAML nodes know their positions; invalid and oversized documents are refused."""

from __future__ import annotations

import pytest

from sokovan.yaml_reader import InvalidYaml, Position, YamlLimits, YamlNode, read_yaml

LIMITS = YamlLimits(text_max=10_000, depth_max=16, nodes_max=1_000)


def only(text: str) -> YamlNode:
    """The one document of a text."""
    [node] = read_yaml(text, "f.yaml", LIMITS)
    return node


def refused(text: str) -> InvalidYaml:
    """The error for an invalid text."""
    with pytest.raises(InvalidYaml) as raised:
        list(read_yaml(text, "f.yaml", LIMITS))
    return raised.value


def test_every_value_knows_its_line_column_and_path() -> None:
    node = only("a: 1\nb:\n  - x\n  - y: [true, ~]\n")
    inner = node.entries["b"].items[1].entries["y"]
    assert (inner.position.line, inner.position.column, inner.path) == (4, 8, "b[1].y")
    assert inner.key_position == Position("f.yaml", 4, 5, "  - y: [true, ~]")
    assert [(item.kind, item.path) for item in inner.items] == [("boolean", "b[1].y[0]"), ("null", "b[1].y[1]")]
    assert inner.items[0].key_position == inner.items[0].position


def test_timestamps_are_strings_and_numbers_are_numbers() -> None:
    node = only("a: 2030-01-01T00:00:00Z\nb: x\nc: 1\nd: 1.5\ne: !!binary aa==\n")
    assert [value.kind for value in node.entries.values()] == ["string", "string", "integer", "float", "other"]
    assert node.entries["a"].text == "2030-01-01T00:00:00Z"


def test_several_documents_are_read() -> None:
    assert [node.kind for node in read_yaml("a: 1\n---\n---\nb: 2\n", "f", LIMITS)] == ["mapping", "null", "mapping"]
    assert list(read_yaml("# nothing\n", "f", LIMITS)) == []


def test_an_alias_is_read_as_a_copy_with_its_own_path() -> None:
    node = only("a: &x {cpu: 1}\nb: *x\n")
    assert (node.entries["b"].entries["cpu"].text, node.entries["b"].entries["cpu"].path) == ("1", "b.cpu")


@pytest.mark.parametrize(
    ("text", "line", "path", "problem"),
    [
        ("a: 1\na: 2\n", 2, "", "the key 'a' is given twice"),
        ("b:\n  a: 1\n  a: 2\n", 3, "b", "the key 'a' is given twice"),
        ("? [a]\n: 1\n", 1, "", "a key must be a plain text"),
        ("a: &x [*x]\n", 1, "a[0]", "an alias may not contain itself"),
        ("a: *unknown\n", 1, "", "this is not YAML: found undefined alias"),
        ("b: 1\n\t- x", 2, "", "this is not YAML"),
        ("a: \x00", 1, "", "this is not YAML"),
        ("%YAML 9.9\n---\na: 1\n---\n%bad", 1, "", "this is not YAML"),
        ("a: 1\nb: {x\n", 3, "", "this is not YAML"),
        ("x" * (LIMITS.text_max + 1), 1, "", "the text is larger than 10000 characters"),
        ("[" * (LIMITS.depth_max + 1), 1, "", "values are nested more than 16 deep"),
        (f"a: &a [{','.join('x' * 100)}]\nb: [{','.join(['*a'] * 10)}]\n", 1, "b[8]", "holds more than 1000 values"),
    ],
)
def test_an_invalid_text_is_refused_with_its_line_and_path(text: str, line: int, path: str, problem: str) -> None:
    error = refused(text)
    assert problem in error.problem
    assert (error.position.file, error.position.line) == ("f.yaml", line)
    assert error.path.startswith(path)


def test_an_error_carries_the_strings_at_the_top_of_its_document() -> None:
    assert refused("name: one\n---\nname: two\nitems: [1]\nitems: [2]\n").strings == {"name": "two"}
    assert refused("- a: 1\n  a: 2\n").strings == {}
