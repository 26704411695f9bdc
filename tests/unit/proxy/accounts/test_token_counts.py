"""Tokens are read from bodies and streams; what is absent is not zero."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.proxy.accounts.token_counts import EVENT_MAX, EventFilter, TokenCount, count_in, estimate
from sokovan.wire.serving.route_table import EventUsage

CHUNK = b'data: {"choices":[{"delta":{"content":"hi"}}],"usage":null}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}', TokenCount(3, 4)),
        (b'{"usage":{"input_tokens":3,"output_tokens":4}}', TokenCount(3, 4)),
        (b'{"usage":{"prompt_tokens":0,"completion_tokens":0}}', TokenCount(0, 0)),
        (b'{"data":[],"usage":{"prompt_tokens":9,"total_tokens":9}}', TokenCount(9, 0)),
        (b'{"usage":null}', None),
        (b"{}", None),
        (b'{"usage":{}}', None),
        (b'{"usage":{"prompt_tokens":-1}}', None),
        (b'{"usage":{"prompt_tokens":"many"}}', None),
        (b"not json", None),
        (b"", None),
    ],
)
def test_usage_is_read_from_a_body_or_unknown(body: bytes, count: TokenCount | None) -> None:
    assert count_in(body) == count


def test_an_estimate_is_marked() -> None:
    assert estimate(sent_bytes=40, events=7) == TokenCount(10, 7, estimated=True)
    assert estimate(sent_bytes=40, received_bytes=8) == TokenCount(10, 2, estimated=True)


@given(st.lists(st.integers(1, len(CHUNK * 2 + USAGE + DONE) - 1), max_size=10), st.booleans())
def test_the_usage_chunk_is_removed_however_the_stream_is_cut(cuts: list[int], removes: bool) -> None:
    stream = CHUNK * 2 + USAGE + DONE
    places = [0, *sorted(set(cuts)), len(stream)]
    events = EventFilter(removes=removes)
    out = b"".join(events.feed(stream[start:end]) for start, end in pairwise(places))
    out += events.finish()

    assert out == CHUNK * 2 + (b"" if removes else USAGE) + DONE
    assert events.count == TokenCount(5, 2)


def test_lines_may_end_with_carriage_returns() -> None:
    events = EventFilter(removes=True)
    out = events.feed((CHUNK + USAGE + DONE).replace(b"\n", b"\r\n"))

    assert out == (CHUNK + DONE).replace(b"\n", b"\r\n")
    assert events.count == TokenCount(5, 2)


def test_usage_beside_choices_is_kept() -> None:
    event = b'data: {"choices":[{}],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
    events = EventFilter(removes=True)

    assert events.feed(event) == event
    assert events.count == TokenCount(1, 2)


def test_the_usage_of_a_response_event_is_read() -> None:
    events = EventFilter(removes=False)
    events.feed(b'event: response.completed\ndata: {"response":{"usage":{"input_tokens":4,"output_tokens":6}}}\n\n')

    assert events.count == TokenCount(4, 6)


def test_an_endless_event_is_passed_on_in_parts() -> None:
    events = EventFilter(removes=True)

    assert events.feed(b"x" * (EVENT_MAX + 1)) == b"x" * (EVENT_MAX + 1)


def test_events_are_counted_for_an_estimate() -> None:
    events = EventFilter(removes=True)
    events.feed(CHUNK * 3)

    assert events.count is None
    assert events.events == 3


COUNT = b'"usage":{"prompt_tokens":5,"completion_tokens":%d}'
SO_FAR = b'data: {"id":"x","choices":[{"delta":{"content":"%b"}}],' + COUNT + b"}\n\n"
BARE = b'data: {"id":"x","choices":[{"delta":{"content":"%b"}}]}\n\n'


@pytest.mark.parametrize("cuts", [[], [10], [60, 90, 150], list(range(1, 400, 7))])
def test_usage_that_was_asked_for_with_each_event_is_read_and_removed(cuts: list[int]) -> None:
    whole = SO_FAR % (b"a", 1) + SO_FAR % (b"b", 4) + SO_FAR % (b"c", 6)
    bounds = [0, *[cut for cut in cuts if cut < len(whole)], len(whole)]
    events = EventFilter(removes=True, event_usage="usage")
    out = b"".join(events.feed(whole[start:end]) for start, end in pairwise(bounds))

    assert out == b"".join(BARE % word for word in (b"a", b"b", b"c"))
    assert events.count == TokenCount(5, 6), "the last one holds"
    assert events.events == 3


def test_the_usage_at_the_end_replaces_that_of_the_events() -> None:
    finish = b'data: {"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":6}}\n\n'
    last = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}\n\n'
    for removes in (True, False):
        events = EventFilter(removes=removes, event_usage="usage")
        out = events.feed(SO_FAR % (b"a", 1) + finish + last + DONE)

        assert events.count == TokenCount(5, 7)
        kept = b"" if removes else last
        assert out == BARE % b"a" + b'data: {"choices":[{"finish_reason":"stop"}]}\n\n' + kept + DONE


def test_what_a_model_says_of_usage_is_not_taken_for_usage() -> None:
    said = json.dumps({"choices": [{"delta": {"content": ',"usage":{"prompt_tokens":1}'}}]}, separators=(",", ":"))
    events = EventFilter(removes=True, event_usage="usage")
    event = b"data: " + said.encode() + b"\n\n"

    assert events.feed(event) == event
    assert events.count is None


def test_usage_with_details_and_spaces_is_removed() -> None:
    event = (
        b'data: {"choices": [{"index": 0}], "usage": {"prompt_tokens": 2, "completion_tokens": 3,'
        b' "prompt_tokens_details": {"cached_tokens": 0}}, "z": 1}\n\n'
    )
    events = EventFilter(removes=True, event_usage="usage")

    assert events.feed(event) == b'data: {"choices": [{"index": 0}], "z": 1}\n\n'
    assert events.count == TokenCount(2, 3)


def test_timings_of_events_are_counted_and_those_at_the_end_stay() -> None:
    timings = b'"timings":{"cache_n":4,"prompt_n":3,"prompt_ms":1.5,"predicted_n":%d}'
    timed = b'data: {"choices":[{"finish_reason":%b}],' + timings + b"}\n\n"
    events = EventFilter(removes=True, event_usage="timings")

    assert events.feed(timed % (b"null", 1)) == b'data: {"choices":[{"finish_reason":null}]}\n\n'
    assert events.count == TokenCount(7, 1)
    end = timed % (b'"stop"', 2)
    assert events.feed(end) == end, "the engine says it of its own accord"
    assert events.count == TokenCount(7, 2)


@pytest.mark.parametrize("kind", ["usage", "timings"])
def test_usage_of_an_event_that_makes_no_sense_is_unknown(kind: EventUsage) -> None:
    events = EventFilter(removes=True, event_usage=kind)
    for text in (b'{"prompt_n":"x","prompt_tokens":"x"}', b'{"prompt_n":-1,"predicted_n":1,"prompt_tokens":-1}'):
        events.feed(b'data: {"a":1,"%b":%b}\n\n' % (kind.encode(), text))
        assert events.count is None
