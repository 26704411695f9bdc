"""Control messages of an exec stream: one command in a kernel, one socket.

Input and output travel as binary messages, control messages as JSON text, so that the
two cannot be confused.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from sokovan.wire.link_codec import QUOTED_MAX, MalformedFrame

# Larger data is sent in several messages.
CHUNK_BYTES_MAX = 64 << 10
MESSAGE_CHARACTERS_MAX = 1000

Cells: TypeAlias = Annotated[int, Meta(ge=0, le=65_535)]


class Resized(Struct, frozen=True, tag="resized"):
    """The size of the terminal at the manager's end."""

    rows: Cells
    columns: Cells


class InputEnded(Struct, frozen=True, tag="input-ended"):
    """The end of the input."""


class CommandEnded(Struct, frozen=True, tag="command-ended"):
    """The command has ended; all its output was sent before."""

    exit_code: int


ExecMessage: TypeAlias = Resized | InputEnded | CommandEnded

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[ExecMessage] = msgspec.json.Decoder(ExecMessage)


def encode_message(message: ExecMessage) -> str:
    """The JSON text of a message."""
    return _encoder.encode(message).decode()


def decode_message(text: str) -> ExecMessage:
    """The message in a JSON text. Raises MalformedFrame only."""
    if len(text) > MESSAGE_CHARACTERS_MAX:
        raise MalformedFrame(f"an exec message has {len(text)} characters, the limit is {MESSAGE_CHARACTERS_MAX}")
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise MalformedFrame(f"not an exec message: {str(problem)[:QUOTED_MAX]}") from None
    except RecursionError:
        raise MalformedFrame("not an exec message: nested too deep") from None
