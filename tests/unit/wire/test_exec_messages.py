"""Exec messages survive a round trip, or are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.wire.exec_messages import (
    MESSAGE_CHARACTERS_MAX,
    CommandEnded,
    ExecMessage,
    InputEnded,
    Resized,
    decode_message,
    encode_message,
)
from sokovan.wire.link_codec import MalformedFrame


@pytest.mark.parametrize("word", [Resized(24, 80), InputEnded(), CommandEnded(137), CommandEnded(0)])
def test_a_message_survives_a_round_trip(word: ExecMessage) -> None:
    assert decode_message(encode_message(word)) == word


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
        " " * (MESSAGE_CHARACTERS_MAX + 1),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(MalformedFrame):
        decode_message(text)


@pytest.mark.slow
@given(st.text())
def test_any_text_is_a_message_or_refused(text: str) -> None:
    try:
        decode_message(text)
    except MalformedFrame:
        return
    raise AssertionError(f"{text!r} was taken for a word")
