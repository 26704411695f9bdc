"""Questions about keys are bounded printable text."""

from __future__ import annotations

import pytest

from sokovan.wire.serving.key_questions import KEY_CHARACTERS_MAX, KeyAnswer, KeyQuestion
from sokovan.wire.serving.route_table import KeyEntry
from sokovan.wire.serving.serving_codec import MalformedMessage, decode_key, decode_question, encode


def test_a_question_and_its_answers_are_read_as_they_were_written() -> None:
    question = KeyQuestion("sk-abc.x")
    assert decode_question(encode(question)) == question
    for answer in (KeyAnswer(), KeyAnswer(KeyEntry(key_id="k", digest="0" * 64, kind="user", owner="ada"))):
        assert decode_key(encode(answer)) == answer


@pytest.mark.parametrize("key", ["", "a b", "a\n", "ü", "x" * (KEY_CHARACTERS_MAX + 1)])
def test_other_text_is_no_key(key: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_question(encode(KeyQuestion(key)))
