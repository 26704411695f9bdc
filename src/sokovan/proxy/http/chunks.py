"""Decodes bodies in the chunked transfer encoding, strictly."""

from __future__ import annotations

import re

from sokovan.proxy.http.heads import BadHead

# A size with its extensions, and all trailers; both are read and dropped.
SIZE_LINE_MAX = 256
TRAILERS_MAX = 8 << 10

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e]*+)?")
_PLAIN_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
# Sizes of chunks by their text, most of which are those of a chunk before.
SIZES_KEPT_MAX = 4_096
_sizes: dict[bytes, int] = {}
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[\t\x20-\x7e\x80-\xff]*+")


class ChunkDecoder:
    """The state of one chunked body.

    `ended` is set after the last chunk and its trailers; `rest` is what came after them.
    """

    __slots__ = ("_after_data", "_in_trailers", "_left", "_tail", "_trailer_bytes", "ended", "rest")

    def __init__(self) -> None:
        self._tail = b""
        self._left = 0
        self._after_data = False
        self._in_trailers = False
        self._trailer_bytes = 0
        self.ended = False
        self.rest = b""

    def whole(self, received: bytes) -> bytes | None:
        """The content of bytes that are one whole chunk and not the last, else None.

        An engine writes one event at a time: most reads are one chunk. Others are for `feed`.
        """
        if self._tail or self._left or self._after_data or self._in_trailers:
            return None
        end = received.find(b"\r\n", 0, 10)
        size = _sizes.get(received[:end]) if end > 0 else None
        if size is None:
            size = _size(received[: max(0, end)])
        if not size or len(received) != end + size + 4 or not received.endswith(b"\r\n"):
            return None
        return received[end + 2 : -2]

    def feed(self, received: bytes) -> list[bytes]:
        """The parts of the body in the next bytes. Raises BadHead."""
        data = self._tail + received if self._tail else received
        self._tail = b""
        pieces: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.ended:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._after_data = not self._left
                continue
            end = data.find(b"\r\n", at, at + SIZE_LINE_MAX + 2)
            if end < 0:
                self._keep_tail(data[at:])
                return pieces
            self._line(data[at:end])
            at = end + 2
        if self.ended:
            self.rest = data[at:]
        return pieces

    def _keep_tail(self, tail: bytes) -> None:
        if len(tail) > SIZE_LINE_MAX or b"\n" in tail or (self._after_data and tail != b"\r"):
            raise BadHead("a chunk is malformed")
        self._tail = tail

    def _line(self, line: bytes) -> None:
        if self._after_data:
            if line:
                raise BadHead("a chunk is longer than its size")
            self._after_data = False
        elif self._in_trailers:
            self._trailer(line)
        else:
            match = _SIZE_LINE.fullmatch(line)
            if match is None:
                raise BadHead("the size of a chunk is not a number")
            self._left = int(match[1], 16)
            self._in_trailers = not self._left

    def _trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line) + 2
        if not line:
            self.ended = True
        elif self._trailer_bytes > TRAILERS_MAX or _TRAILER.fullmatch(line) is None:
            raise BadHead("a trailer is malformed, or there are too many")


def _size(digits: bytes) -> int:
    """The size of a chunk without extensions; 0 for any other line."""
    if _PLAIN_SIZE.fullmatch(digits) is None:
        return 0
    if len(_sizes) >= SIZES_KEPT_MAX:
        _sizes.clear()
    size = _sizes[digits] = int(digits, 16)
    return size
