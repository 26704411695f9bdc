"""Words on a stream: whole there and back, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.wire.exec_messages import (
    WORD_CHARACTERS_MAX,
    CommandEnded,
    InputEnded,
    Resized,
    StreamWord,
    word_of,
    word_text,
)
from sokovan.wire.link_codec import MalformedFrame


@pytest.mark.parametrize("word", [Resized(24, 80), InputEnded(), CommandEnded(137), CommandEnded(0)])
def test_a_word_is_read_as_it_was_written(word: StreamWord) -> None:
    assert word_of(word_text(word)) == word


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "7",
        '{"type": "no-such-word"}',
        '{"type": "resized", "rows": -1, "columns": 5}',
        '{"type": "resized", "rows": 1, "columns": 65536}',
        '{"type": "command-ended", "exit_code": "0"}',
        '{"type": "input-ended", "more": ' + "[" * 900 + "}",
        " " * (WORD_CHARACTERS_MAX + 1),
    ],
)
def test_what_is_no_word_is_refused(text: str) -> None:
    with pytest.raises(MalformedFrame):
        word_of(text)


@given(st.text())
def test_any_text_is_a_word_or_refused_and_nothing_else(text: str) -> None:
    try:
        word_of(text)
    except MalformedFrame:
        return
    raise AssertionError(f"{text!r} was taken for a word")
