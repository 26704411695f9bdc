"""Chunked bodies come out whole however they are cut, or are refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.proxy.http.chunks import ChunkDecoder
from sokovan.proxy.http.heads import BadHead

BODY = b"5\r\nhello\r\n6;name=value\r\n world\r\n0\r\nTrailer: x\r\n\r\nGET / next"


@given(st.lists(st.integers(1, len(BODY) - 1), max_size=12))
def test_a_body_is_the_same_however_it_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(set(cuts)), len(BODY)]
    decoder, found, rest = ChunkDecoder(), b"", b""
    for start, end in itertools.pairwise(places):
        if decoder.ended:
            rest += BODY[start:end]
        else:
            piece = decoder.whole(BODY[start:end])
            found += piece if piece is not None else b"".join(decoder.feed(BODY[start:end]))
            rest += decoder.rest

    assert decoder.ended
    assert found == b"hello world"
    assert rest == b"GET / next"


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5))
def test_chunks_that_come_one_by_one_are_passed_on_one_by_one(parts: list[bytes]) -> None:
    decoder = ChunkDecoder()
    for part in parts:
        assert decoder.whole(b"%x\r\n%b\r\n" % (len(part), part)) == part
    assert not decoder.ended
    assert decoder.feed(b"0\r\n\r\nGET") == []
    assert (decoder.ended, decoder.rest) == (True, b"GET")


@pytest.mark.parametrize(
    "body",
    [
        b"g\r\n",
        b"\r\n",
        b"-1\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b" 5\r\nhello\r\n",
        b"5 \r\nhello\r\n",
        b"5\nhello\r\n",
        b"5\r\nhelloX\r\n",
        b"5\r\nhello\n0\r\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"123456789\r\n",
        b"5;\x00\r\n",
        b"5;" + b"x" * 300,
        b"5" * 300,
        b"0\r\nbad trailer\r\n\r\n",
        b"0\r\n folded: x\r\n\r\n",
        b"0\r\n" + b"x: y\r\n" * 2_000,
    ],
)
def test_a_malformed_chunk_is_refused(body: bytes) -> None:
    assert ChunkDecoder().whole(body) is None
    with pytest.raises(BadHead):
        ChunkDecoder().feed(body)


@pytest.mark.parametrize("begun", [b"5", b"5\r\nhe", b"5\r\nhello", b"5\r\nhello\r", b"0\r\n"])
def test_no_chunk_is_taken_for_whole_inside_another(begun: bytes) -> None:
    decoder = ChunkDecoder()
    decoder.feed(begun)

    assert decoder.whole(b"3\r\nabc\r\n") is None


@pytest.mark.parametrize("body", [b"", b"5", b"5\r", b"5\r\nhel", b"5\r\nhello\r", b"0\r\n", b"0\r\nx: y"])
def test_a_body_that_is_not_whole_has_not_ended(body: bytes) -> None:
    decoder = ChunkDecoder()
    decoder.feed(body)

    assert not decoder.ended
