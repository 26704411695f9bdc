"""Documents use the field's terms: none of the words that tidy bans in docstrings and help texts."""

import re
from pathlib import Path

import pytest

from tools.tidy.vocabulary import BANNED_WORDS

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("examples/*/*.md")]
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_banned_word(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if BANNED_WORDS.search(line)] == []
