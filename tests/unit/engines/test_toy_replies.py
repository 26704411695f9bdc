"""Answers of the toy engine: deterministic, and in the forms of the OpenAI API."""

from __future__ import annotations

import base64
import struct

import pytest

from sokovan.engines.toy_replies import (
    BLOCK,
    TOKEN,
    Answer,
    PrefixCache,
    UnreadableRequest,
    count_of,
    embeddings,
    prompt_of,
    streamed,
    tokens_in,
    whole,
    words_of,
)

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"


def answer(count: int = 5) -> Answer:
    return Answer(1, 0, "toy", words_of("hello", count), tokens_in("hello"), 0)


def test_the_same_prompt_gives_the_same_words_and_another_one_others() -> None:
    assert words_of("hello", 20) == words_of("hello", 20) != words_of("hello!", 20)
    assert words_of("hello", 20)[:5] == words_of("hello", 5)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_streamed_answer_has_the_same_text_as_a_whole_one(path: str) -> None:
    whole_one = whole(path, answer())["choices"][0]
    parts = [event["choices"][0] for _, event in streamed(path, answer(), with_usage=False)]
    text = whole_one["message"]["content"] if path == CHAT else whole_one["text"]
    joined = "".join(part["delta"].get("content", "") if path == CHAT else part["text"] for part in parts)
    assert joined == text == answer().text
    assert [part["finish_reason"] for part in parts] == [None] * 5 + ["stop"]


def test_the_last_event_has_the_usage_if_it_was_asked_for() -> None:
    *rest, (_, last) = streamed(CHAT, answer(), with_usage=True)
    assert last["choices"] == []
    assert last["usage"] == whole(CHAT, answer())["usage"]
    assert {event["usage"] for _, event in rest} == {None}
    assert all("usage" not in event for _, event in streamed(CHAT, answer(), with_usage=False))


def test_the_events_of_a_response_are_numbered_and_end_with_the_whole_response() -> None:
    events = [event for _, event in streamed(RESPONSES, answer(), with_usage=False)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert "".join(event["delta"] for event in events if event["type"].endswith("delta")) == answer().text
    assert events[-1]["response"] == whole(RESPONSES, answer())


def test_a_prompt_that_begins_like_an_earlier_one_has_cached_tokens() -> None:
    cache, common = PrefixCache(), "x" * (2 * BLOCK)
    assert cache.cached_tokens(common + "a" * BLOCK) == 0
    assert cache.cached_tokens(common + "b" * BLOCK) == 2 * BLOCK // TOKEN
    assert cache.cached_tokens("c" * BLOCK + common) == 0


def test_the_prompt_is_read_from_messages_texts_and_parts() -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert prompt_of(CHAT, {"messages": parts}) == prompt_of(CHAT, {"messages": [{"role": "user", "content": "hi"}]})
    assert prompt_of(COMPLETIONS, {"prompt": ["a", "b"]}) == "a\nb"
    assert prompt_of(RESPONSES, {"input": "a"}) == "a"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {}),
        (CHAT, {"messages": []}),
        (CHAT, {"messages": ["hi"]}),
        (COMPLETIONS, {"prompt": 7}),
        (RESPONSES, {}),
    ],
)
def test_a_body_without_a_prompt_is_refused(path: str, body: dict[str, object]) -> None:
    with pytest.raises(UnreadableRequest):
        prompt_of(path, body)


@pytest.mark.parametrize("asked", [0, -1, 10**9, "5", True, 1.5])
def test_an_impossible_number_of_tokens_is_refused(asked: object) -> None:
    with pytest.raises(UnreadableRequest):
        count_of({"max_tokens": asked}, 16)


def test_vectors_are_equal_as_numbers_and_packed() -> None:
    plain, tokens = embeddings({"input": ["a", "bcdefgh"], "dimensions": 4}, "toy")
    packed, _ = embeddings({"input": ["a", "bcdefgh"], "dimensions": 4, "encoding_format": "base64"}, "toy")
    unpacked = struct.unpack("<4f", base64.b64decode(packed["data"][1]["embedding"]))
    assert unpacked == pytest.approx(plain["data"][1]["embedding"])
    assert plain["usage"]["prompt_tokens"] == tokens == 3


@pytest.mark.parametrize("body", [{}, {"input": []}, {"input": "a", "dimensions": 10**9}, {"input": ["a"] * 3000}])
def test_impossible_vectors_are_refused(body: dict[str, object]) -> None:
    with pytest.raises(UnreadableRequest):
        embeddings(body, "toy")
