"""Parts and errors of chats are read whatever form an engine gives them."""

from __future__ import annotations

import pytest

from sokovan.wire.serving.chat_events import ChatFailed, MalformedChat, refusal_of, text_of


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'data: {"choices":[{"delta":{"content":"a"}},{"delta":{"content":null}},{}]}\n', "a"),
        (b'data: {"choices":[]}\n', ""),
        (b"data: [DONE]\n", ""),
        (b": alive\n", ""),
        (b"\n", ""),
    ],
)
def test_a_line_has_a_text_or_none(line: bytes, text: str) -> None:
    assert text_of(line) == text


@pytest.mark.parametrize(
    ("error", "message"),
    [(b'"out of memory"', "out of memory"), (b'{"message":"cut"}', "cut"), (b"{}", "the answer broke off")],
)
def test_an_error_ends_the_answer_with_its_message(error: bytes, message: str) -> None:
    with pytest.raises(ChatFailed, match=message):
        text_of(b'data: {"error":' + error + b"}")


@pytest.mark.parametrize("content", [b"nonsense", b"5", b"[1]", b'"text"', b'{"choices":[5]}'])
def test_anything_else_is_no_part_of_an_answer(content: bytes) -> None:
    with pytest.raises(MalformedChat):
        text_of(b"data: " + content)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'{"error":{"message":"no such model"}}', "no such model"),
        (b'{"detail":"unexpected field"}', "unexpected field"),
        (b"<html>", "the gateway answers with status 502"),
        (b"[1]", "the gateway answers with status 502"),
    ],
)
def test_a_refusal_has_the_message_of_its_body(content: bytes, text: str) -> None:
    assert refusal_of(content, 502) == text
