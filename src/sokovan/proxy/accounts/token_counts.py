"""Token counts of responses: from a JSON body, or from the events of a stream."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

# A longer body is not kept to read its usage; its tokens are estimated.
BODY_MAX = 4 << 20
# An event that is longer is passed on in parts.
EVENT_MAX = 1 << 20
CHARACTERS_PER_TOKEN = 4
_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class TokenCount(NamedTuple):
    """Tokens of one request; `estimated` if the engine did not report them."""

    input_tokens: int
    output_tokens: int
    estimated: bool = False

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


class _Carrier(msgspec.Struct):
    usage: _Usage | None = None


class _Response(msgspec.Struct):
    usage: _Usage | None = None
    choices: tuple[msgspec.Raw, ...] | None = None
    response: _Carrier | None = None


_responses = msgspec.json.Decoder(_Response)


def count_in(body: bytes) -> TokenCount | None:
    """The tokens that a JSON response reports; None if it reports none."""
    found = _decoded(body)
    return _count(found) if found is not None else None


def estimate(*, sent_bytes: int, received_bytes: int = 0, events: int = 0) -> TokenCount:
    """A count for a response without usage: an event of a stream is about one token."""
    output = events or received_bytes // CHARACTERS_PER_TOKEN
    return TokenCount(sent_bytes // CHARACTERS_PER_TOKEN, output, estimated=True)


def _decoded(body: bytes) -> _Response | None:
    try:
        return _responses.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _count(found: _Response) -> TokenCount | None:
    usage = found.usage or (found.response.usage if found.response else None)
    if usage is None:
        return None
    given = usage.prompt_tokens if usage.prompt_tokens is not None else usage.input_tokens
    made = usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
    if given is None and made is None:
        return None
    count = TokenCount(given or 0, made or 0)
    return count if count.input_tokens >= 0 and count.output_tokens >= 0 else None


class EventFilter:
    """Reads the usage of a stream, and removes the event that only has usage.

    It is removed if the proxy asked for it, not the client. Events are passed on whole; a
    part of one waits for the rest.
    """

    __slots__ = ("_removes", "_tail", "count", "events")

    def __init__(self, *, removes: bool) -> None:
        self._removes = removes
        self._tail = b""
        self.count: TokenCount | None = None
        self.events = 0

    def feed(self, piece: bytes) -> bytes:
        """The events to pass on."""
        if self._tail:
            piece = self._tail + piece
            self._tail = b""
        if not piece.endswith(_ENDS):
            cut = max(piece.rfind(end) + len(end) if end in piece else 0 for end in _ENDS)
            if len(piece) - cut <= EVENT_MAX:
                piece, self._tail = piece[:cut], piece[cut:]
        self.events += piece.count(b"data:")
        return self._without_usage(piece) if b'"usage"' in piece else piece

    def finish(self) -> bytes:
        """The part of an event at the end of a stream that broke off."""
        tail, self._tail = self._tail, b""
        return tail

    def _without_usage(self, piece: bytes) -> bytes:
        kept: list[bytes] = []
        for event in _split(piece):
            found = _decoded(_data_of(event)) if b'"usage"' in event else None
            count = _count(found) if found is not None else None
            if count is None:
                kept.append(event)
                continue
            self.count = count
            if not (self._removes and found is not None and found.choices == ()):
                kept.append(event)
            else:
                self.events -= 1
        return b"".join(kept)


def _split(piece: bytes) -> list[bytes]:
    """The events of a piece, each with its end."""
    end = b"\r\n\r\n" if b"\r\n\r\n" in piece else b"\n\n"
    parts = piece.split(end)
    events = [part + end for part in parts[:-1]]
    return [*events, parts[-1]] if parts[-1] else events


def _data_of(event: bytes) -> bytes:
    lines = event.splitlines()
    return b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
