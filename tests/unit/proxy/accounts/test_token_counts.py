"""Tokens are read from bodies and streams; what is absent is not zero."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.proxy.accounts.token_counts import EVENT_MAX, EventFilter, TokenCount, count_in, estimate

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
