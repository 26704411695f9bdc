"""Server-sent events, read as their text arrives."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.sdk.core.streams.server_events import EVENT_MAX, KEEP_ALIVE, EventReader, ServerEvent
from sokovan.sdk.errors import UnexpectedAnswer

TEXT = "event: a\nid: 1\ndata: x\n\n: alive\n\ndata: one\ndata: two\n\nevent: empty\n\n"
EVENTS = [ServerEvent("a", "x", "1"), ServerEvent("message", "one\ntwo")]


def read(*pieces: str) -> list[ServerEvent]:
    """Every event but the pulses."""
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece) if not event.is_keep_alive]


def test_events_have_a_name_and_their_lines() -> None:
    assert read(TEXT) == EVENTS


@given(st.lists(st.integers(0, len(TEXT)), max_size=6), st.booleans())
def test_it_does_not_matter_where_the_text_is_cut(cuts: list[int], windows: bool) -> None:
    text = TEXT.replace("\n", "\r\n") if windows else TEXT
    places = [0, *sorted(cuts), len(text)]
    assert read(*(text[a:b] for a, b in pairwise(places))) == EVENTS


def test_a_comment_is_a_pulse() -> None:
    assert list(EventReader().feed(": alive\n\n")) == [KEEP_ALIVE]


def test_an_id_without_an_event_is_a_pulse_with_a_place() -> None:
    reader = EventReader()
    assert list(reader.feed(": connected\nid: p.7\n\ndata: one\n\n")) == [
        ServerEvent(place="p.7"),
        ServerEvent("message", "one"),
    ]
    assert ServerEvent(place="p.7").is_keep_alive


def test_half_an_event_is_a_pulse() -> None:
    reader = EventReader()
    assert list(reader.feed("data: o")) == [KEEP_ALIVE]
    assert list(reader.feed("ne\n\n")) == [ServerEvent("message", "one")]


@pytest.mark.parametrize("piece", ["data: " + "x" * (1 << 20) + "\n", "x" * (1 << 20)])
def test_an_event_without_end_is_refused(piece: str) -> None:
    with pytest.raises(UnexpectedAnswer):
        read(*[piece] * (EVENT_MAX // (1 << 20) + 1))
