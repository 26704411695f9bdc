"""What is said beside the bytes on a stream: one command in a kernel, one socket.

Input and output travel as binary messages. A word travels as a text message in JSON,
so that the two cannot be taken for each other.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from sokovan.wire.link_codec import QUOTED_MAX, MalformedFrame

# One message of bytes; whoever has more sends several.
PIECE_BYTES_MAX = 64 << 10
WORD_CHARACTERS_MAX = 1000

Cells: TypeAlias = Annotated[int, Meta(ge=0, le=65_535)]


class Resized(Struct, frozen=True, tag="resized"):
    """The terminal at the manager's end has this size now."""

    rows: Cells
    columns: Cells


class InputEnded(Struct, frozen=True, tag="input-ended"):
    """No more input comes."""


class CommandEnded(Struct, frozen=True, tag="command-ended"):
    """The command is over, and all that it said was sent before."""

    exit_code: int


StreamWord: TypeAlias = Resized | InputEnded | CommandEnded

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[StreamWord] = msgspec.json.Decoder(StreamWord)


def word_text(word: StreamWord) -> str:
    """A word as it is sent."""
    return _encoder.encode(word).decode()


def word_of(text: str) -> StreamWord:
    """The word in a text. Raises MalformedFrame, and nothing else."""
    if len(text) > WORD_CHARACTERS_MAX:
        raise MalformedFrame(f"a word of {len(text)} characters on a stream, {WORD_CHARACTERS_MAX} is the limit")
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise MalformedFrame(f"not a word of a stream: {str(problem)[:QUOTED_MAX]}") from None
    except RecursionError:
        raise MalformedFrame("not a word of a stream: nested too deep") from None
