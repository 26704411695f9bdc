"""Token counts of responses: from a JSON body, or from the events of a stream."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from sokovan.wire.serving.route_table import EventUsage

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


class _Timings(msgspec.Struct):
    """The counts of llama.cpp: the prompt that it read, and that it had read before."""

    prompt_n: int
    predicted_n: int
    cache_n: int = 0


class _Carrier(msgspec.Struct):
    usage: _Usage | None = None


class _Response(msgspec.Struct):
    usage: _Usage | None = None
    choices: tuple[msgspec.Raw, ...] | None = None
    response: _Carrier | None = None


_responses = msgspec.json.Decoder(_Response)
_usages = msgspec.json.Decoder(_Usage)
_timings = msgspec.json.Decoder(_Timings)
# A member of an event that is not its first, with one level of objects in it. In a text of JSON a quotation mark has
# a backslash before it, so that this is not found in what a model says.
_NAMES = {"usage": b'"usage":', "timings": b'"timings":'}
_MEMBERS = {
    kind: re.compile(rb",[ ]?%b[ ]?(\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\})" % name) for kind, name in _NAMES.items()
}
# Of the events at the end of a stream, which say more of their own accord.
_LAST = (b'"finish_reason":"', b'"finish_reason": "', b'"choices":[]', b'"choices": []')
_COMMA = ord(",")


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
    return None if usage is None else _count_of(usage)


def _count_of(usage: _Usage) -> TokenCount | None:
    given = usage.prompt_tokens if usage.prompt_tokens is not None else usage.input_tokens
    made = usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
    if given is None and made is None:
        return None
    count = TokenCount(given or 0, made or 0)
    return count if count.input_tokens >= 0 and count.output_tokens >= 0 else None


def _count_so_far(text: bytes, kind: EventUsage) -> TokenCount | None:
    """The tokens that an event reports beside its content."""
    try:
        if kind == "usage":
            return _count_of(_usages.decode(text))
        found = _timings.decode(text)
    except msgspec.DecodeError:
        return None
    count = TokenCount(found.prompt_n + found.cache_n, found.predicted_n)
    return count if min(found.prompt_n, found.cache_n, found.predicted_n) >= 0 else None


class EventFilter:
    """Reads the usage of a stream, and removes the event that only has usage.

    It is removed if the proxy asked for it, not the client; so is the usage beside the content
    of other events, which the proxy asks for as `event_usage`. Events are passed on whole; a
    part of one waits for the rest.
    """

    __slots__ = ("_event_usage", "_member", "_name", "_own", "_removes", "_so_far", "_tail", "_total", "events")

    def __init__(self, *, removes: bool, event_usage: EventUsage = "") -> None:
        self._removes, self._event_usage = removes, event_usage
        self._name, self._member = _NAMES.get(event_usage, b""), _MEMBERS.get(event_usage)
        self._own = _LAST if event_usage == "timings" else _LAST[2:]
        self._tail = self._so_far = b""
        self._total: TokenCount | None = None
        self.events = 0

    @property
    def count(self) -> TokenCount | None:
        """The tokens as the engine reported them last; None if it did not."""
        if self._total is None and self._so_far:
            return _count_so_far(self._so_far, self._event_usage)
        return self._total

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
        if self._member is not None:
            piece = self._without_member(piece, self._member)
        named = piece.count(b'"usage"')
        if not named or named == piece.count(b'"usage":null'):
            return piece
        return self._without_usage(piece)

    def finish(self) -> bytes:
        """The part of an event at the end of a stream that broke off."""
        tail, self._tail = self._tail, b""
        return tail

    def _without_member(self, piece: bytes, member: re.Pattern[bytes]) -> bytes:
        """The piece without what the engine was asked to say with each event."""
        name = self._name
        at = piece.rfind(name)
        if at < 1:
            return piece
        single, end = piece.find(name) == at, piece.find(b"}", at) + 1
        text = piece[at + len(name) : end]
        if single and text.count(b"{") == 1 and text[:1] == b"{" and piece[at - 1] == _COMMA:
            start = at - 1
        else:  # several events, spaces, or objects within
            found = list(member.finditer(piece))
            if not found:
                return piece
            start, end, text = found[-1].start(), found[-1].end(), found[-1][1]
        self._so_far, self._total = text, None
        if b"[]" in piece or (self._own is _LAST and (_LAST[0] in piece or _LAST[1] in piece)):
            # A last chunk that the engine sends of its own accord is not removed here.
            events = _split(piece)
            return b"".join(one if any(last in one for last in self._own) else member.sub(b"", one) for one in events)
        return piece[:start] + piece[end:] if single else member.sub(b"", piece)

    def _without_usage(self, piece: bytes) -> bytes:
        kept: list[bytes] = []
        for event in _split(piece):
            found = _decoded(_data_of(event)) if b'"usage"' in event else None
            count = _count(found) if found is not None else None
            if count is None:
                kept.append(event)
                continue
            self._total = count
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
