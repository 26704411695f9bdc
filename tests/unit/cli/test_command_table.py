"""The table of all commands."""

from __future__ import annotations

from pathlib import Path

from sokovan.cli.command_table import COMMANDS, NOUNS, SECTIONS, first_words, noun_overview, overview, summary_of


def test_every_first_word_is_in_one_section() -> None:
    words = first_words()
    assert len(set(words)) == len(words)
    assert set(words) == {each.split()[0] for each in COMMANDS}
    assert {each for each in words if " " in each} == set()


def test_every_noun_has_commands_and_every_command_of_two_words_a_noun() -> None:
    assert set(NOUNS) == {each.split()[0] for each in COMMANDS if " " in each}


def test_summaries_are_sentences_that_fit_a_line() -> None:
    for word in first_words():
        assert summary_of(word).endswith(".")
        assert len(summary_of(word)) <= 64


def test_the_overviews_fit_a_terminal() -> None:
    pages = [overview(), *(noun_overview(noun) for noun in NOUNS)]
    assert max(len(line) for page in pages for line in page.splitlines()) <= 90
    assert all(f"{title}:" in overview() for title in SECTIONS)


def test_every_command_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert [words for words in COMMANDS if f"## sokovan {words}\n" not in page] == []
