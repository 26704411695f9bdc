"""The page of the properties of evictions names a test that exists for each of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools.tidy.definitions import functions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/evictions.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+)\. .* \| `([\w/]+\.py)::(\w+)` \|$", PAGE, flags=re.MULTILINE)


def test_each_of_the_properties_has_a_test() -> None:
    assert sorted({int(number) for number, _, _ in ROWS}) == list(range(1, 24))
    assert len(ROWS) == len(re.findall(r"^\| \d", PAGE, flags=re.MULTILINE))


@pytest.mark.parametrize(("file", "test"), sorted({(file, test) for _, file, test in ROWS}))
def test_a_test_of_a_property_exists(file: str, test: str) -> None:
    syntax = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert test.startswith("test_")
    assert test in [definition.name for definition, _ in functions(syntax)]
