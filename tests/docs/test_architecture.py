"""ARCHITECTURE.md opens with a diagram, names files that exist, and ends with a tour of ten existing functions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools.tidy.definitions import functions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
TOUR = list(SECTIONS.values())[-1]
STOPS = re.findall(r"^\d+\. `[\w/]+\.py::[\w.]+`", TOUR, flags=re.MULTILINE)
FUNCTIONS = re.findall(r"`([\w/]+\.py)::([\w.]+)`", TOUR)
# A paragraph that starts with a folder, and the files that it names relative to it.
PARAGRAPHS = re.findall(
    r"^`([\w/]+)/`(.*?)(?=\n\n|\Z)", SECTIONS["The package, `src/sokovan`"], flags=re.MULTILINE | re.DOTALL
)
FILES = [(folder, file) for folder, text in PARAGRAPHS for file in re.findall(r"`([\w/]+\.py)`", text)]


def test_the_page_opens_with_a_diagram() -> None:
    [first, *_] = re.findall(r"^(?:```|## ).*", PAGE, flags=re.MULTILINE)
    assert first == "```mermaid"


def test_the_page_ends_with_a_tour_of_ten_stops() -> None:
    assert list(SECTIONS)[-1].startswith("Code tour")
    assert len(STOPS) == len(re.findall(r"^\d+\. ", TOUR, flags=re.MULTILINE)) == 10


@pytest.mark.parametrize(("file", "function"), FUNCTIONS)
def test_a_stop_of_the_tour_is_a_function_that_exists(file: str, function: str) -> None:
    syntax = ast.parse((ROOT / "src/sokovan" / file).read_text(encoding="utf-8"))
    assert function in [definition.name for definition, _ in functions(syntax)]


@pytest.mark.parametrize(("folder", "file"), FILES)
def test_a_file_that_a_paragraph_names_exists_in_its_folder(folder: str, file: str) -> None:
    base = ROOT / "src/sokovan"
    assert list((base / folder).rglob(file)) or (base / file).is_file()
