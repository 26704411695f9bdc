"""How the values of a spec are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec import fields
from sokovan.sdk.spec.spec_yaml import read_nodes
from sokovan.yaml_reader import YamlNode

Read = Callable[[YamlNode], Any]
CHOICE = fields.one_of("end", "requeue")


def value(text: str) -> YamlNode:
    """The value of the key `v`."""
    [node] = read_nodes(f"v: {text}\n", "f")
    return node.entries["v"]


@pytest.mark.parametrize(
    ("read", "text", "found"),
    [
        (fields.text, "x", "x"),
        (fields.text, "3.10", "3.10"),
        (fields.text, "'yes'", "yes"),
        (fields.number, "-3", -3),
        (fields.flag, "yes", True),
        (fields.flag, "False", False),
        (fields.amount, "4", 4),
        (fields.amount, "0.5", 0.5),
        (fields.amount, "16GiB", "16GiB"),
        (fields.duration, "90", 90),
        (fields.duration, "4h", "4h"),
        (fields.words, "[a, 1]", ["a", "1"]),
        (fields.texts, "{A: 1, B: x}", {"A": "1", "B": "x"}),
        (fields.texts, "", {}),
        (fields.amounts, "{cpu: 0.5, mem: 4GiB}", {"cpu": 0.5, "mem": "4GiB"}),
        (CHOICE, "requeue", "requeue"),
    ],
)
def test_a_value_of_the_right_type_is_read(read: Read, text: str, found: object) -> None:
    assert read(value(text)) == found


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (fields.text, "yes"),
        (fields.text, "~"),
        (fields.text, "[a]"),
        (fields.text, "{a: 1}"),
        (fields.number, "1.5"),
        (fields.number, "'1'"),
        (fields.number, "0x10"),
        (fields.number, "9" * 30),
        (fields.flag, "1"),
        (fields.amount, ".nan"),
        (fields.amount, ".inf"),
        (fields.amount, "1:30.5"),
        (fields.amount, "yes"),
        (fields.amount, "[1]"),
        (fields.duration, "1.5"),
        (fields.duration, "{}"),
        (fields.words, "a b"),
        (fields.words, "[[a]]"),
        (fields.texts, "[A]"),
        (fields.texts, "{A: yes}"),
        (fields.amounts, "{cpu: ~}"),
        (CHOICE, "requue"),
        (CHOICE, "[end]"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_position(read: Read, text: str) -> None:
    with pytest.raises(InvalidSpecFile, match=r"^f:1:\d+: "):
        read(value(text))


def test_an_unknown_key_suggests_a_similar_one() -> None:
    [node] = read_nodes("sise: 3\n", "f")
    with pytest.raises(InvalidSpecFile, match=r"f:1:1: a session has no key 'sise'; did you mean 'size'\?"):
        fields.entries_of(node, ("size", "name"), what="a session")


def test_an_unknown_choice_suggests_a_similar_one() -> None:
    with pytest.raises(InvalidSpecFile, match=r"did you mean 'requeue'\?"):
        CHOICE(value("requue"))
