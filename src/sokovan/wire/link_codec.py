"""Encodes and decodes frames: bounded, versioned, with one error type.

A frame is one byte with the protocol's number, then MessagePack. Nesting is bounded by
the frame types; skipped fields are bounded by the interpreter.
"""

from __future__ import annotations

import msgspec

from sokovan.wire.frames import PROTOCOL, Frame

FRAME_BYTES_MAX = 1 << 20
QUOTED_MAX = 300

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


class MalformedFrame(Exception):
    """Bytes that are not a frame, or a frame that is too large."""

    code = "malformed-frame"
    hint = "check that the peer is a sokovan manager or agent, and compare the versions of both sides"


class UnknownProtocol(MalformedFrame):
    """A frame of a protocol version that this release does not support."""

    code = "unknown-protocol"
    hint = "upgrade the older of manager and agent"

    def __init__(self, *, theirs: int) -> None:
        self.theirs = theirs
        super().__init__(f"the peer uses protocol {theirs}, this release uses {PROTOCOL}")


def encode(frame: Frame) -> bytes:
    """The bytes of a frame. Raises MalformedFrame if it is too large."""
    content = bytes((PROTOCOL,)) + _encoder.encode(frame)
    if len(content) > FRAME_BYTES_MAX:
        raise MalformedFrame(f"a frame has {len(content)} bytes, the limit is {FRAME_BYTES_MAX}")
    return content


def decode(content: bytes) -> Frame:
    """The frame in these bytes. Raises MalformedFrame only."""
    if len(content) > FRAME_BYTES_MAX:
        raise MalformedFrame(f"a frame has {len(content)} bytes, the limit is {FRAME_BYTES_MAX}")
    if not content:
        raise MalformedFrame("an empty frame")
    if content[0] != PROTOCOL:
        raise UnknownProtocol(theirs=content[0])
    try:
        return _decoder.decode(memoryview(content)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise MalformedFrame(f"not a frame: {str(problem)[:QUOTED_MAX]}") from None
    except RecursionError:
        raise MalformedFrame("not a frame: nested too deep") from None
