"""Frames to bytes and back: bounded, versioned, one error for whatever is wrong.

A frame is one byte with the protocol's number, then MessagePack. How deep a frame
may nest follows from its types; what a reader skips is bounded by the interpreter.
"""

from __future__ import annotations

import msgspec

from sokovan.wire.frames import PROTOCOL, Frame

FRAME_BYTES_MAX = 1 << 20
QUOTED_MAX = 300

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


class MalformedFrame(Exception):
    """Bytes that are no frame, or a frame that may not be sent."""

    code = "malformed-frame"
    hint = "the peer is not a sokovan of this kind, or there is a defect; compare the versions of both sides"


class UnknownProtocol(MalformedFrame):
    """A frame of a protocol that this release does not speak."""

    code = "unknown-protocol"
    hint = "upgrade the older of manager and agent"

    def __init__(self, *, theirs: int) -> None:
        self.theirs = theirs
        super().__init__(f"the peer speaks protocol {theirs}, this release speaks {PROTOCOL}")


def encode(frame: Frame) -> bytes:
    """The bytes of a frame. Raises MalformedFrame if there are too many."""
    content = bytes((PROTOCOL,)) + _encoder.encode(frame)
    if len(content) > FRAME_BYTES_MAX:
        raise MalformedFrame(f"a frame of {len(content)} bytes is too large, {FRAME_BYTES_MAX} is the limit")
    return content


def decode(content: bytes) -> Frame:
    """The frame in these bytes. Raises MalformedFrame, and nothing else."""
    if len(content) > FRAME_BYTES_MAX:
        raise MalformedFrame(f"a frame of {len(content)} bytes is too large, {FRAME_BYTES_MAX} is the limit")
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
